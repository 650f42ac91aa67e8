#!/usr/bin/env node
// Runs the gateway's binary, which comes as a package of its own for each platform.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const platform = `${process.platform}-${process.arch}`;
let binary = process.env.ONCEWARD_BINARY;
try {
  binary ||= createRequire(import.meta.url).resolve(`@onceward/${platform}/bin/onceward`);
} catch {
  console.error(
    `onceward: there is no binary for ${platform} here. Nothing was started.\n` +
      `Install it (npm install @onceward/${platform}), or name one of your own in ONCEWARD_BINARY. ` +
      "The client library works without it.",
  );
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// Whoever stops this process stops the gateway, which then settles what is under way.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`onceward: ${binary} did not start: ${error.message}`);
  process.exitCode = 1;
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exitCode = code ?? 1;
  }
});
