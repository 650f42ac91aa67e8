import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { Bench, saw, Wire } from "./bench.mjs";

let bench, wire, agent, onceward, adapter;
const ONE = { count: 1, requests: 1 };

before(async () => {
  bench = await Bench.start();
  agent = await bench.example("mcp-typescript/agent.mjs");
  onceward = await bench.import("onceward");
  adapter = await bench.import("onceward/mcp");
});
after(() => bench?.end());
beforeEach(async () => {
  await bench.clear();
  wire = await Wire.before(bench.url);
});
afterEach(() => wire.close());

/** Does something with a client that is connected. */
async function connected(url, use, options) {
  const client = await agent.connect(url, bench.agent, options);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

const runs = (file, url, turns, options) => connected(url, (client) => agent.run(client, file, agent.script(turns)), options);
const reordered = () => Object.fromEntries(Object.entries(agent.TICKET).reverse());

test("a lost reply is told once and nothing is sent again", async () => {
  await bench.breakNextTicket();
  const texts = saw("mcp", "lost reply", await runs(bench.newRun(), bench.url));
  assert.equal(texts.length, 1);
  assert.match(texts[0], /^The write may have happened/);
  assert.deepEqual(await bench.tickets(), ONE);
  await bench.settleUnknown({ id: "T-1001" });
});

for (const mode of ["auto", "legacy"]) {
  test(`a repetition after the reply was lost gets the receipt (${mode})`, async () => {
    wire.lose(2);
    const texts = await runs(bench.newRun(), wire.url, [agent.TICKET], { versionNegotiation: { mode } });
    const [text] = saw("mcp", `framework retry, ${mode}`, texts);
    assert.equal(wire.lost, 2);
    assert.match(text, /T-1001/);
    assert.deepEqual(await bench.tickets(), ONE);
  });
}

test("a process killed between effect and checkpoint makes one ticket", async () => {
  const said = saw("mcp", "killed", await bench.killedBetweenEffectAndCheckpoint("mcp-typescript/agent.mjs"));
  assert.match(said.join(), /^model saw: .*T-1001/);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("a regenerated call under another tool-call id makes one ticket", async () => {
  const [first, second] = saw("mcp", "regenerated", await runs(bench.newRun(), bench.url, [agent.TICKET, reordered()]));
  assert.match(first, /T-1001/);
  assert.equal(second, first);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("another run with the same arguments is another ticket", async () => {
  for (const file of [bench.newRun(), bench.newRun()]) await runs(file, bench.url);
  assert.deepEqual(await bench.tickets(), { count: 2, requests: 2 });
});

test("without an id an equal call is held", async () => {
  const call = { name: "create_ticket", arguments: { ...agent.TICKET, title: "Without an id" } };
  const [first, second] = await connected(bench.url, async (client) => [await client.callTool(call), await client.callTool(call)]);
  saw("mcp", "without an id", [first, second].map(({ content }) => content[0].text));
  assert.doesNotThrow(() => adapter.checked(first));
  assert.throws(() => adapter.checked(second), onceward.PossibleDuplicate);
  assert.deepEqual(await bench.tickets(), ONE);
});

test("what is no receipt is thrown as the client over HTTP throws it", async () => {
  const operation = onceward.newOperationId();
  const other = { ...agent.TICKET, title: "Another" };
  await connected(bench.url, async (client) => {
    await adapter.callTool(client, "create_ticket", agent.TICKET, { operation });
    const thrown = (args, options) => adapter.callTool(client, "create_ticket", args, options).then(assert.fail, (error) => error);
    const conflict = await thrown(other, { operation });
    assert(conflict instanceof onceward.OperationConflict);
    assert.deepEqual(conflict.differences.map(({ at }) => at), ["/title"]);
    const refused = await thrown({ title: 7 }, { operation: onceward.newOperationId() });
    assert(refused instanceof onceward.Refused);
    assert.equal(refused.code, "invalid_arguments");
    assert.equal(refused.repeat, "never");
    assert.match(refused.message, /title/);
    saw("mcp", "refusals", [conflict.message, refused.message]);
    assert((await thrown(other, { operation: "no id at all" })) instanceof TypeError);
  });
  assert.deepEqual(await bench.tickets(), ONE);
});

test("ids that are being stored are given once they are stored, and not if that fails", async () => {
  const saved = [];
  let fails = true;
  const ids = new adapter.KeptIds({}, async (state) => {
    const written = JSON.stringify(state);
    await new Promise(setImmediate);
    if (fails) throw new Error("the disk is full");
    saved.push(written);
  });
  await assert.rejects(ids.of("create_ticket", agent.TICKET), /disk/);
  fails = false;
  const both = await Promise.all([ids.of("create_ticket", agent.TICKET), ids.of("create_ticket", reordered())]);
  assert.equal(both[0], both[1]);
  assert.equal(saved.length, 1);
  assert(saved[0].includes(both[0]));
  const second = await ids.second("create_ticket", agent.TICKET);
  assert.notEqual(second, both[0]);
  assert.equal(await ids.of("create_ticket", agent.TICKET), second);
  assert.equal(saved.length, 2);
});

test("the fetch with ids puts one on a call that has none, and leaves everything else as it is", async () => {
  const sent = [];
  const ids = new adapter.KeptIds({}, () => {});
  const id = await ids.of("create_ticket", agent.TICKET);
  const send = adapter.fetchWithOperationIds(ids, async (to, init) => {
    sent.push(new Headers(init?.headers).get("idempotency-key"));
    return new Response();
  });
  const params = { name: "create_ticket", arguments: agent.TICKET };
  const call = (more) => JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { ...params, ...more } });
  await send(bench.url, { method: "POST", body: call() });
  await send(bench.url, { method: "POST", body: call({ _meta: { [adapter.META]: "ticket-17" } }) });
  await send(bench.url, { method: "POST", body: call(), headers: { "Idempotency-Key": "ticket-18" } });
  for (const body of ['{"jsonrpc":"2.0","id":2,"method":"tools/list"}', "grant_type=refresh_token", new URLSearchParams({ a: "b" })]) {
    await send(bench.url, { method: "POST", body });
  }
  await send(bench.url);
  assert.deepEqual(sent, [id, null, "ticket-18", null, null, null, null]);
});
