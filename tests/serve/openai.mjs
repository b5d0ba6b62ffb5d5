// The official OpenAI client against a server whose model recites "one two three".
//   node openai.mjs FOLDER_WITH_THE_PACKAGE URL ENDLESS_URL [MODEL_URL SAID]
// The second never stops by itself; the third has a real model, and the file SAID tells what that one says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, url, endless, model, said] = process.argv.slice(2);
const { OpenAI } = createRequire(folder + "/")("openai");
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "sesame", maxRetries: 0 });
const messages = [{ role: "user", content: "Count!" }];

const models = await client.models.list();
assert.equal(models.data[0].id, "parrot");
assert.equal((await client.models.retrieve("parrot")).id, "parrot");

const whole = await client.chat.completions.create({ model: "parrot", messages });
assert.equal(whole.choices[0].message.content, "one two three");
assert.equal(whole.choices[0].finish_reason, "stop");
assert.equal(whole.usage.total_tokens, 8);

const chances = await client.chat.completions.create({ model: "parrot", messages, logprobs: true, top_logprobs: 2 });
assert.equal(chances.choices[0].logprobs.content[0].top_logprobs.length, 2);

const stream = await client.chat.completions.create({ model: "parrot", messages, stream: true, stream_options: { include_usage: true } });
let text = "", usage = null, reason = null;
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta.content ?? "";
  reason = chunk.choices[0]?.finish_reason ?? reason;
  usage = chunk.usage ?? usage;
}
assert.equal(text, "one two three");
assert.equal(reason, "stop");
assert.equal(usage.completion_tokens, 3);

// Its own way of putting the pieces together.
const runner = client.chat.completions.stream({ model: "parrot", messages });
assert.equal((await runner.finalChatCompletion()).choices[0].message.content, "one two three");

const completion = await client.completions.create({ model: "parrot", prompt: "Count:", max_tokens: 2 });
assert.equal(completion.choices[0].text, "one two");
assert.equal(completion.choices[0].finish_reason, "length");
text = "";
for await (const chunk of await client.completions.create({ model: "parrot", prompt: "Count:", stream: true })) text += chunk.choices[0].text;
assert.equal(text, "one two three");

await assert.rejects(client.chat.completions.create({ model: "gpt-4o", messages }), (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
await assert.rejects(client.chat.completions.create({ model: "parrot", messages, temperature: "hot" }), (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
const stranger = new OpenAI({ baseURL: url + "/v1", apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);

// It may leave in the middle.
const forever = await new OpenAI({ baseURL: endless + "/v1", apiKey: "sesame", maxRetries: 0 }).chat.completions.create({ model: "parrot", messages, stream: true });
let heard = 0;
for await (const chunk of forever) if (chunk.choices[0].delta.content && ++heard === 5) break;
assert.equal(heard, 5);

if (model) {
  const wanted = JSON.parse(readFileSync(said));
  const real = new OpenAI({ baseURL: model + "/v1", apiKey: "any", maxRetries: 0 });
  assert.equal((await real.models.list()).data[0].id, wanted.model);
  const text = { model: wanted.model, prompt: wanted.prompt, max_tokens: wanted.tokens, temperature: 0, ignore_eos: true };
  const written = await real.completions.create(text);
  assert.equal(written.choices[0].text, wanted.text);
  assert.equal(written.usage.completion_tokens, wanted.tokens);
  let pieces = [];
  for await (const chunk of await real.completions.create({ ...text, stream: true })) if (chunk.choices[0].text) pieces.push(chunk.choices[0].text);
  assert.equal(pieces.join(""), wanted.text);
  assert.ok(pieces.length > 1);
  const talk = { model: wanted.model, messages: [{ role: "user", content: wanted.question }], max_tokens: wanted.tokens, temperature: 0 };
  assert.equal((await real.chat.completions.create(talk)).choices[0].message.content, wanted.answer);
  assert.equal((await real.chat.completions.stream(talk).finalChatCompletion()).choices[0].message.content, wanted.answer);
}
console.log("all is as it should be");
