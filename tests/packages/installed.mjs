// What an installed client does against a gateway from the same package. The first word says what: `calls`, `dies` or `looks`.
// Effects are lines of the file that the second word names: what was really done, whatever anybody was told.

import assert from "node:assert/strict";
import { appendFileSync, existsSync, readFileSync } from "node:fs";

import { newOperationId, Onceward, OperationUnknown } from "onceward";

const [what, file] = process.argv.slice(2);
const client = new Onceward();
const effects = () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : []);

const writeLine = client.operation("write_line", { settleWithinMs: 1_000 }, async ({ name, die }) => {
  appendFileSync(file, `${name}\n`);
  if (die) process.kill(process.pid, "SIGKILL");
  return { name };
});

writeLine.lookup({ visibleAfterMs: 0, worksForMs: 1_000, absencesRequired: 1 }, async (due) => {
  const { name } = due.arguments;
  return effects().includes(name) ? { by: "marker", parameters: "same", effectId: name, body: { name } } : null;
});

if (what === "calls") {
  const operation = newOperationId();
  const ticket = { title: "Printer", body: "It burns." };
  const first = await client.call("create_ticket", ticket, { operation });
  const again = await client.call("create_ticket", ticket, { operation });
  assert.deepEqual([first.outcome, again.outcome, first.body], ["executed", "replayed", again.body]);
  const own = newOperationId();
  assert.deepEqual(await writeLine({ name: "one" }, { operation: own }), { name: "one" });
  assert.deepEqual(await writeLine({ name: "one" }, { operation: own }), { name: "one" });
  assert.deepEqual(effects(), ["one"]);
} else if (what === "dies") {
  await writeLine({ name: "two", die: true }, { operation: "dies-1" });
} else if (what === "looks") {
  while ((await client.status("dies-1", { waitMs: 1_000 })).state !== "unknown");
  await assert.rejects(writeLine({ name: "two", die: true }, { operation: "dies-1" }), OperationUnknown);
  while (!(await client.runDueLookups()));
  assert.deepEqual(await writeLine({ name: "two", die: true }, { operation: "dies-1" }), { name: "two" });
  assert.equal(effects().filter((name) => name === "two").length, 1);
}
console.log("well");
