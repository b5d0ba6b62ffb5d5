// The chat page in Chromium, which is told what to do over a pipe (DevTools protocol).
//   node chat_page.mjs CHROMIUM URL ENDLESS_URL [MODEL_URL SAID]
// The second server's answers never end by themselves; the third has a real model, and the file SAID tells what it says.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [chromium, url, endless, model, said] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "chaos-page-"));
const browser = spawn(chromium, ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
  "--user-data-dir=" + profile, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const gone = new Promise((resolve) => browser.on("exit", resolve));

let next = 0, rest = "";
const waiting = new Map();
const complaints = [];
browser.stdio[4].setEncoding("utf8").on("data", (text) => {
  rest += text;
  let end;
  while ((end = rest.indexOf("\0")) >= 0) {
    const message = JSON.parse(rest.slice(0, end));
    rest = rest.slice(end + 1);
    if (message.id !== undefined) { waiting.get(message.id)(message); waiting.delete(message.id); }
    if (message.method === "Runtime.exceptionThrown") complaints.push(message.params.exceptionDetails.exception?.description ?? message.params.exceptionDetails.text);
    if (message.method === "Log.entryAdded" && message.params.entry.level === "error") complaints.push(message.params.entry.text);
  }
});
function send(method, params = {}, sessionId = undefined) {
  const id = next++;
  browser.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
  return new Promise((resolve, reject) => waiting.set(id, (message) => message.error ? reject(new Error(method + ": " + message.error.message)) : resolve(message.result)));
}

async function open(address) {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const page = {
    send: (method, params) => send(method, params, sessionId),
    async value(expression) {
      const answer = await page.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      assert.equal(answer.exceptionDetails, undefined, expression);
      return answer.result.value;
    },
    // Waits until the page says so.
    until: (condition) => page.value(`new Promise((done) => { const look = () => (${condition}) ? done(true) : setTimeout(look, 10); look(); })`),
    async go(to) {
      await page.send("Page.navigate", { url: to });
      await page.until(`location.href === ${JSON.stringify(to)} && document.readyState === "complete" && document.getElementById("ask")`);
    },
    async ask(text) {
      await page.value(`document.getElementById("prompt").focus()`);
      await page.send("Input.insertText", { text });
      await page.send("Input.dispatchKeyEvent", { type: "keyDown", key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: "\r" });
      await page.send("Input.dispatchKeyEvent", { type: "keyUp", key: "Enter", code: "Enter", windowsVirtualKeyCode: 13 });
    },
  };
  for (const domain of ["Page", "Runtime", "Log"]) await page.send(domain + ".enable");
  await page.go(address);
  return page;
}
const answers = `[...document.querySelectorAll(".assistant .text")].map((entry) => entry.textContent)`;

try {
  const page = await open(url + "/");
  await page.until(`document.getElementById("model").textContent === "parrot"`);
  await page.ask("Count <b>please</b>");
  await page.until(`${answers}.join() === "one two three" && !document.querySelector(".writing")`);
  assert.equal(await page.value(`document.querySelector(".user .text").textContent`), "Count <b>please</b>");
  assert.match(await page.value(`document.querySelector(".note").textContent`), /^3 tokens/);

  // The conversation outlives a reload, and goes on.
  await page.send("Page.reload");
  await page.until(`document.readyState === "complete" && document.getElementById("model")?.textContent === "parrot"`);
  assert.deepEqual(await page.value(answers), ["one two three"]);
  await page.ask("Again");
  await page.until(`${answers}.length === 2 && ${answers}[1] === "one two three" && !document.querySelector(".writing")`);
  assert.equal(await page.value(`JSON.parse(localStorage.getItem("chaos.messages")).length`), 4);

  // It fits a phone, and is dark where the system is.
  await page.send("Emulation.setDeviceMetricsOverride", { width: 360, height: 640, deviceScaleFactor: 2, mobile: true });
  assert.ok(await page.value(`document.scrollingElement.scrollWidth <= 360 && document.getElementById("send").getBoundingClientRect().right <= 360`));
  const background = `getComputedStyle(document.body).backgroundColor`;
  await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "light" }] });
  const light = await page.value(background);
  await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  assert.notEqual(await page.value(background), light);

  await page.value(`document.getElementById("fresh").click()`);
  assert.deepEqual(await page.value(answers), []);
  assert.ok(await page.value(`!document.getElementById("empty").hidden`));

  // An answer can be stopped; what was said stays.
  const other = await open(endless + "/");
  await other.ask("Count for ever");
  await other.until(`${answers}[0]?.startsWith("one two three")`);
  assert.equal(await other.value(`document.getElementById("send").getAttribute("aria-label")`), "Stop");
  await other.value(`document.getElementById("send").click()`);
  await other.until(`document.querySelector(".note")?.textContent === "Stopped."`);
  assert.ok((await other.value(answers))[0].startsWith("one two three"));
  assert.equal(await other.value(`document.getElementById("send").getAttribute("aria-label")`), "Send");

  // An answer that is under way when a new conversation begins does not get into that one.
  await other.ask("Once more");
  await other.until(`${answers}[1]?.startsWith("one two three")`);
  await other.value(`document.getElementById("fresh").click()`);
  assert.deepEqual(await other.value(answers), []);
  await other.ask("Anew");
  await other.until(`${answers}[0]?.startsWith("one two three")`);
  await other.value(`document.getElementById("send").click()`);
  await other.until(`document.querySelector(".note")?.textContent === "Stopped."`);
  assert.deepEqual(await other.value(`JSON.parse(localStorage.getItem("chaos.messages")).map((message) => message.role)`), ["user", "assistant"]);
  assert.deepEqual(await other.value(`[...document.querySelectorAll(".user .text")].map((entry) => entry.textContent)`), ["Anew"]);

  if (model) {
    const wanted = JSON.parse(readFileSync(said));
    const real = await open(model + "/");
    await real.until(`document.getElementById("model").textContent === ${JSON.stringify(wanted.model)}`);
    await real.value(`document.getElementById("temperature").value = "0"; document.getElementById("length").value = "${wanted.tokens}"`);
    await real.ask(wanted.question);
    await real.until(`document.querySelector(".note, .problem") && !document.querySelector(".writing")`);
    const talk = await real.value(`JSON.parse(localStorage.getItem("chaos.messages"))`);
    assert.deepEqual(talk, [{ role: "user", content: wanted.question }, { role: "assistant", content: wanted.answer }]);
    assert.match(await real.value(`document.querySelector(".note").textContent`), / tokens, .* per second/);
  }

  assert.deepEqual(complaints, []);
  console.log("all is as it should be");
} finally {
  // What it starts writes into its folder as long as it is there: it ends in good order, all of it.
  if (browser.exitCode === null) send("Browser.close").catch(() => browser.kill());
  await gone;
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
