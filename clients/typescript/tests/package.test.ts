import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { VERSION } from "../src/wire.js";

test("the_package_has_the_entrances_that_it_names", async () => {
  const [main, testing, alone] = await Promise.all([
    import("onceward"),
    import("onceward/testing"),
    import("onceward/fingerprint"),
  ]);
  assert.equal(typeof main.Onceward, "function");
  assert.equal(typeof testing.loseReply, "function");
  assert.equal(alone.fingerprint, main.fingerprint);
});

test("the_client_names_itself_by_the_packages_version_and_needs_nothing_else", () => {
  const file = new URL("../../package.json", import.meta.url);
  const { version, dependencies } = JSON.parse(readFileSync(file, "utf8")) as { version: string; dependencies?: object };
  assert.equal(version, VERSION);
  assert.equal(dependencies, undefined);
});

test("the_fingerprint_can_be_taken_alone", () => {
  const source = readFileSync(new URL("../../src/fingerprint.ts", import.meta.url), "utf8");
  const imported = [...source.matchAll(/from "([^"]+)"/g)].map(([, from]) => from);
  assert.deepEqual(imported, ["node:crypto"]);
});
