// A shop in Node whose orders are rows of its own, each with its receipt in one commit (docs/sql.md).
//
// DATABASE is its address, as a role that may call the two functions and write its table, and nothing else. What it saw is printed as
// one JSON document, for the test that started it.

const path = require("node:path");

// The client's file, taken alone: a service that writes its own SQL needs nothing else of it.
const helper = import("../../../clients/typescript/dist/src/fingerprint.js");

// The script lies in the repository, and what it needs where `cargo xtask test` has put it.
const { Client } = require(path.join(process.env.PACKAGES, "node_modules", "pg"));

const BEGIN = "SELECT * FROM onceward.begin_operation('acme', $1, 'shop-node', 'create_order', $2, $3, $4, $5)";
const FINISH = "SELECT onceward.finish_operation('acme', $1, $2, $3)";
const KEY_ID = 7;
const KEY = Buffer.from(Array.from({ length: 32 }, (_, at) => at));

async function connected(use) {
  const client = new Client({ connectionString: process.env.DATABASE });
  // A connection that is cut says so here as well as where it was waited for.
  client.on("error", () => {});
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end().catch(() => {});
  }
}

async function committed(use) {
  return connected(async (client) => {
    await client.query("BEGIN");
    const told = await use(client);
    await client.query("COMMIT");
    return told;
  });
}

async function begin(client, operation, args, how = {}) {
  const given = [operation, how.version ?? "1", JSON.stringify(args), how.fingerprint ?? null, how.keyId ?? 0];
  return (await client.query(BEGIN, given)).rows[0];
}

// One order, in the transaction that is open on this connection. The caller commits.
async function order(client, operation, item, how) {
  const told = await begin(client, operation, { item }, how);
  if (told.verdict !== "run") return told;
  const sql = "INSERT INTO orders (operation, item) VALUES ($1, $2) RETURNING id";
  const id = (await client.query(sql, [operation, item])).rows[0].id;
  const answer = JSON.stringify({ order: String(id) });
  await client.query(FINISH, [operation, `O-${id}`, answer]);
  return { ...told, answer };
}

async function orders(operation) {
  const sql = "SELECT count(*)::int AS n FROM orders WHERE operation = $1";
  return connected(async (client) => (await client.query(sql, [operation])).rows[0].n);
}

// COMMIT is sent, and nobody waits for its answer. Whoever repeats the call never makes a second order.
async function lostReply(rounds = 20) {
  const verdicts = [];
  for (let number = 0; number < rounds; number += 1) {
    const operation = `js-lost-${number}`;
    await connected(async (client) => {
      await client.query("BEGIN");
      await order(client, operation, "printer");
      client.query("COMMIT").catch(() => {});
      // Ends the socket once what was written has left, without waiting for an answer.
      client.connection.stream.destroySoon();
    });
    const first = await committed((client) => order(client, operation, "printer"));
    const second = await committed((client) => order(client, operation, "printer"));
    if (second.verdict !== "replay" || second.answer !== first.answer) throw new Error(JSON.stringify([first, second]));
    if ((await orders(operation)) !== 1) throw new Error(`${operation} has ${await orders(operation)} orders`);
    verdicts.push(first.verdict);
  }
  return verdicts;
}

// The commit is answered, and the caller's process dies before it says so.
async function knownReply() {
  const first = await committed((client) => order(client, "js-known", "printer"));
  const again = await committed((client) => order(client, "js-known", "printer"));
  return [first.verdict, again.verdict, first.answer === again.answer, await orders("js-known")];
}

async function rollbackAfterOurAnswer() {
  const first = await connected(async (client) => {
    await client.query("BEGIN");
    const told = await order(client, "js-rolled", "printer");
    await client.query("ROLLBACK");
    return told;
  });
  const left = await orders("js-rolled");
  const second = await committed((client) => order(client, "js-rolled", "printer"));
  return [first.verdict, left, second.verdict, await orders("js-rolled")];
}

async function conflict() {
  await committed((client) => order(client, "js-conflict", "printer"));
  const told = await committed((client) => order(client, "js-conflict", "scanner"));
  return [told.verdict, await orders("js-conflict")];
}

// The tool has a new version since: the call is compared as the operation was made.
async function anotherVersion() {
  await committed((client) => order(client, "js-version", "printer", { version: "1" }));
  return committed(async (client) => {
    const told = await order(client, "js-version", "printer", { version: "2" });
    const again = await order(client, "js-version", "printer", { version: told.made_with_version });
    return [told.verdict, told.made_with_version, again.verdict];
  });
}

async function underAKey() {
  const { fingerprint } = await helper;
  const made = Buffer.from(fingerprint("create_order", "1", { item: "printer" }, { key: KEY }), "hex");
  const how = { fingerprint: made, keyId: KEY_ID };
  const first = await committed((client) => order(client, "js-keyed", "printer", how));
  return committed(async (client) => {
    const again = await order(client, "js-keyed", "printer", how);
    const without = await order(client, "js-keyed", "printer");
    return [first.verdict, again.verdict, without.verdict, Number(without.made_with_key)];
  });
}

async function aHelperThatIsWrong() {
  try {
    await committed((client) => begin(client, "js-wrong", { item: "printer" }, { fingerprint: Buffer.alloc(32) }));
    return "it was taken";
  } catch (error) {
    return error.message;
  }
}

async function concurrency(callers = 16) {
  const told = await Promise.all(
    Array.from({ length: callers }, () => committed((client) => order(client, "js-together", "printer"))),
  );
  const count = (verdict) => told.filter((one) => one.verdict === verdict).length;
  const answers = new Set(told.map((one) => one.answer)).size;
  return [count("run"), count("replay"), answers, await orders("js-together")];
}

async function unfinished() {
  const seen = await connected(async (client) => {
    await client.query("BEGIN");
    const told = await begin(client, "js-unfinished", { item: "printer" });
    await client.query("INSERT INTO orders (operation, item) VALUES ('js-unfinished', 'printer')");
    try {
      await client.query("COMMIT");
      return [told.verdict, "committed"];
    } catch (error) {
      return [told.verdict, error.message];
    }
  });
  const again = await committed((client) => order(client, "js-unfinished", "printer"));
  return [...seen, again.verdict, await orders("js-unfinished")];
}

async function main() {
  const seen = {
    lost_reply: await lostReply(),
    known_reply: await knownReply(),
    rollback: await rollbackAfterOurAnswer(),
    conflict: await conflict(),
    version: await anotherVersion(),
    keyed: await underAKey(),
    wrong: await aHelperThatIsWrong(),
    concurrency: await concurrency(),
    unfinished: await unfinished(),
  };
  process.stdout.write(`${JSON.stringify(seen)}\n`);
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
});
