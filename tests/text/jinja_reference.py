#!/usr/bin/env python3
"""Renders templates with Jinja2, set up as Hugging Face's transformers set it up for chat templates.

Reads lines of JSON, {"template": TEXT, "variables": OBJECT}, and answers each with a line: {"text": TEXT} or
{"error": SENTENCE}. With --version: says which Jinja2 there is."""

import datetime
import json
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 7, 4, 5, 6, 7)


class Generation(jinja2.ext.Extension):
    """{% generation %}: what an assistant said. Rendered as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    @staticmethod
    def _inside(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = NOW.strftime
    return result


def main():
    if sys.argv[1:] == ["--version"]:
        print(jinja2.__version__)
        return
    warnings.simplefilter("ignore")  # Python's on the code that Jinja makes of odd templates
    rendering = environment()
    for line in sys.stdin:
        case = json.loads(line)
        try:
            answer = {"text": rendering.from_string(case["template"]).render(**case["variables"])}
        except Exception as problem:  # whatever a template does wrong is an answer
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        # A text may hold half a surrogate pair, which no other program can read.
        print(json.dumps(answer), flush=True)


main()
