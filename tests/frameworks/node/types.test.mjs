import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { layOut } from "./bench.mjs";

test("the frameworks' own types accept the adapters", async () => {
  const folder = await mkdtemp(join(tmpdir(), "onceward-types-"));
  try {
    await layOut(folder);
    await cp(new URL("types.ts", import.meta.url), join(folder, "types.ts"));
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    const options = "--noEmit --strict --skipLibCheck --target es2023 --module nodenext --types node types.ts".split(" ");
    const compiler = join(folder, "node_modules/typescript/bin/tsc");
    const { status, stdout } = spawnSync(process.execPath, [compiler, ...options], { cwd: folder, encoding: "utf8" });
    assert.equal(status, 0, stdout);
  } finally {
    await rm(folder, { recursive: true });
  }
});
