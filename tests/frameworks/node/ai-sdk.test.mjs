import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { Bench, saw, Wire } from "./bench.mjs";

let bench, wire, agent, own, overMcp, Onceward, onceward;
const UNKNOWN = /^OperationUnknown: The write may have happened: /;
const ONE = { count: 1, requests: 1 };

before(async () => {
  bench = await Bench.start();
  agent = await bench.example("ai-sdk/agent.mjs");
  own = await bench.example("ai-sdk/own-function.mjs");
  overMcp = await bench.example("ai-sdk/mcp.mjs");
  onceward = await bench.import("onceward");
  Onceward = onceward.Onceward;
});
after(() => bench?.end());
beforeEach(async () => {
  await bench.clear();
  wire = await Wire.before(bench.url);
});
afterEach(() => wire.close());

const client = (url = bench.url) => new Onceward({ url, token: bench.agent });
const reordered = () => Object.fromEntries(Object.entries(agent.TICKET).reverse());

/** One run, from its beginning to its end or to where it was cut off. What the model saw of its tools. */
async function runs(file, url, turns, endsAt) {
  return agent.seen(await agent.run(file, (ids) => agent.tools(client(url), ids), agent.script(turns), endsAt));
}

test("a lost reply is told once and nothing is sent again", async () => {
  await bench.breakNextTicket();
  const texts = saw("ai-sdk", "lost reply", await runs(bench.newRun(), bench.url));
  assert.equal(texts.length, 1);
  assert.match(texts[0], UNKNOWN);
  assert.deepEqual(await bench.tickets(), ONE);
  await bench.settleUnknown({ id: "T-1001" });
});

test("a run that was cut off, and is made again, gets the receipt", async () => {
  const file = bench.newRun();
  wire.lose(3); // all that the client sends by itself
  assert.deepEqual(saw("ai-sdk", "replies lost, first run", await runs(file, wire.url)), []);
  const [text] = saw("ai-sdk", "replies lost, second run", await runs(file, wire.url));
  assert.equal(wire.lost, 3);
  assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("a run that ends at an unknown goes on with the receipt once a person has settled it", async () => {
  const file = bench.newRun();
  const isUnknown = (error) => error instanceof onceward.OperationUnknown;
  await bench.breakNextTicket();
  for (const _ of ["first", "and not settled yet"]) assert.deepEqual(await runs(file, bench.url, [agent.TICKET], isUnknown), []);
  await bench.settleUnknown({ id: "T-1001" });
  const [text] = saw("ai-sdk", "settled by a person", await runs(file, bench.url, [reordered()], isUnknown));
  assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("a process killed between effect and checkpoint makes one ticket", async () => {
  const said = saw("ai-sdk", "killed", await bench.killedBetweenEffectAndCheckpoint("ai-sdk/agent.mjs"));
  assert.match(said.join(), /^model saw: .*T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("a regenerated call under another tool-call id makes one ticket", async () => {
  const [first, second] = saw("ai-sdk", "regenerated", await runs(bench.newRun(), bench.url, [agent.TICKET, reordered()]));
  assert.match(first, /T-1001/);
  assert.equal(second, first);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("another run with the same arguments is another ticket", async () => {
  for (const file of [bench.newRun(), bench.newRun()]) await runs(file, bench.url);
  assert.deepEqual(await bench.tickets(), { count: 2, requests: 2 });
});

test("without an id an equal call is held", async () => {
  const ticket = { ...agent.TICKET, title: "Without an id" };
  await client().call("create_ticket", ticket);
  await assert.rejects(client().call("create_ticket", ticket), onceward.PossibleDuplicate);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("a wait that a timeout ended is not told as a failure", async () => {
  const file = bench.newRun();
  const { generateText } = await bench.import("ai");
  const { KeptIds } = await bench.import("onceward/ai-sdk");
  wire.hold();
  const tools = agent.tools(client(wire.url), new KeptIds({}, () => {}));
  const { content } = await generateText({ model: agent.script(), prompt: file, tools, timeout: { toolMs: 500 } });
  const { error } = content.find(({ type }) => type === "tool-error");
  saw("ai-sdk", "timeout", [error.message]);
  assert.match(error.message, /It may have been done/);
  assert.deepEqual(await bench.tickets(), ONE);
});

/** One streamed answer to a chat whose operation ids are in `kept`. What the model saw of its tools. */
async function streams(kept, url, turns, options = {}) {
  const { isStepCount, simulateReadableStream, streamText } = await bench.import("ai");
  const { MockLanguageModelV4 } = await bench.import("ai/test");
  const { KeptIds } = await bench.import("onceward/ai-sdk");
  const whole = agent.script(turns);
  const doStream = async (asked) => {
    const { content, finishReason, usage } = await whole.doGenerate(asked);
    const id = "0";
    const told = content.flatMap((part) =>
      part.type === "text" ? [{ type: "text-start", id }, { type: "text-delta", id, delta: part.text }, { type: "text-end", id }] : [part],
    );
    const chunks = [{ type: "stream-start", warnings: [] }, ...told, { type: "finish", finishReason, usage }];
    return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) };
  };
  const { stream } = streamText({
    model: new MockLanguageModelV4({ doStream }),
    prompt: "Open a ticket: the printer burns.",
    tools: agent.tools(client(url), new KeptIds(kept, () => {})),
    stopWhen: [isStepCount(20)],
    onError: () => {},
    ...options,
  });
  const texts = [];
  for await (const { type, error, output } of stream) {
    if (type === "tool-error") texts.push(`${error}`);
    if (type === "tool-result") texts.push(JSON.stringify(output));
  }
  return texts;
}

test("streamed, a lost reply is told once and nothing is sent again", async () => {
  await bench.breakNextTicket();
  const texts = saw("ai-sdk streamed", "lost reply, and the call regenerated", await streams({}, bench.url, [agent.TICKET, reordered()]));
  assert.equal(texts.length, 2);
  for (const text of texts) assert.match(text, UNKNOWN);
  assert.deepEqual(await bench.tickets(), ONE);
  await bench.settleUnknown({ id: "T-1001" });
});

test("streamed, an answer that its reader gave up in the middle is made again with one ticket", async () => {
  const kept = {};
  wire.hold();
  const abortSignal = AbortSignal.timeout(500);
  const given = await streams(kept, wire.url, undefined, { abortSignal }).catch((error) => [`${error}`]);
  saw("ai-sdk streamed", "given up", given);
  assert.equal(Object.keys(kept).length, 1, "the id was stored before the call");
  const [text] = saw("ai-sdk streamed", "made again", await streams(kept, bench.url));
  assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

/** The same with the own function. */
async function runsOwn(file, url, turns) {
  const toolsOf = (ids) => own.tools(client(url), bench.sandbox, ids);
  return agent.seen(await agent.run(file, toolsOf, agent.script(turns, "open_ticket")));
}

test("an own function's lost reply is told once and it is not run again", async () => {
  await bench.breakNextTicket();
  const texts = await runsOwn(bench.newRun(), bench.url, [agent.TICKET, { ...reordered(), customer: "acme" }]);
  saw("ai-sdk own function", "lost reply, and the call regenerated with its default written", texts);
  assert.equal(texts.length, 2);
  for (const text of texts) assert.match(text, UNKNOWN);
  assert.deepEqual(await bench.tickets(), ONE);
  await bench.settleUnknown({ id: "T-1001" });
});

test("an own function whose settlement got no reply is run once", async () => {
  wire.lose(1);
  const [first, second] = await runsOwn(bench.newRun(), wire.url, [agent.TICKET, reordered()]);
  saw("ai-sdk own function", "reply to the settlement lost", [first, second]);
  assert.equal(wire.lost, 1);
  assert.match(first, /T-1001/);
  assert.equal(second, first);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("an own function killed between effect and checkpoint makes one ticket", async () => {
  const said = await bench.killedBetweenEffectAndCheckpoint("ai-sdk/own-function.mjs");
  assert.match(saw("ai-sdk own function", "killed", said).join(), /^model saw: .*T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("a model's mistake in the arguments of an own function is told, and nothing is claimed", async () => {
  const [text] = saw("ai-sdk own function", "wrong arguments", await runsOwn(bench.newRun(), bench.url, [{ title: 7 }]));
  assert.match(text, /nothing was claimed: \/title: /);
  assert.deepEqual(await bench.tickets(), { count: 0, requests: 0 });
});

/** The same with the gateway's tools over MCP. */
async function runsOverMcp(file, url, turns, endsAt) {
  return agent.seen(await overMcp.runOverMcp(url, bench.agent, file, agent.script(turns), endsAt));
}

test("over MCP a lost reply is told once and nothing is sent again", async () => {
  await bench.breakNextTicket();
  const texts = saw("ai-sdk over MCP", "lost reply", await runsOverMcp(bench.newRun(), bench.url));
  assert.equal(texts.length, 1);
  assert.match(texts[0], /The write may have happened/);
  assert.deepEqual(await bench.tickets(), ONE);
  await bench.settleUnknown({ id: "T-1001" });
});

test("over MCP a run that ends at an unknown goes on with the receipt once a person has settled it", async () => {
  const file = bench.newRun();
  const isUnknown = (error) => error instanceof onceward.OperationUnknown;
  await bench.breakNextTicket();
  assert.deepEqual(await runsOverMcp(file, bench.url, [agent.TICKET], isUnknown), []);
  await bench.settleUnknown({ id: "T-1001" });
  const [text] = saw("ai-sdk over MCP", "settled by a person", await runsOverMcp(file, bench.url, [reordered()], isUnknown));
  assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("over MCP a retry by the framework gets the receipt", async () => {
  wire.lose(1, 502);
  const [text] = saw("ai-sdk over MCP", "framework retry", await runsOverMcp(bench.newRun(), wire.url));
  assert.equal(wire.lost, 1);
  assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("over MCP a run that was cut off, and is made again, gets the receipt", async () => {
  const file = bench.newRun();
  wire.lose(1);
  assert.deepEqual(await runsOverMcp(file, wire.url), []);
  const [text] = saw("ai-sdk over MCP", "reply lost, second run", await runsOverMcp(file, wire.url));
  assert.equal(wire.lost, 1);
  assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("over MCP a process killed between effect and checkpoint makes one ticket", async () => {
  const said = saw("ai-sdk over MCP", "killed", await bench.killedBetweenEffectAndCheckpoint("ai-sdk/mcp.mjs"));
  assert.match(said.join(), /^model saw: .*T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("over MCP a regenerated call under another tool-call id makes one ticket", async () => {
  const texts = saw("ai-sdk over MCP", "regenerated", await runsOverMcp(bench.newRun(), bench.url, [agent.TICKET, reordered()]));
  assert.equal(texts.length, 2);
  for (const text of texts) assert.match(text, /T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});
