// Reads calls as JSON lines {"tool", "version", "arguments": text}, and prints the fingerprint of each, or the code of its refusal.

import { createInterface } from "node:readline";

import { fingerprint, InvalidJson } from "../../clients/typescript/dist/src/fingerprint.js";

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  try {
    console.log(fingerprint(call.tool, call.version, call.arguments));
  } catch (refusal) {
    if (!(refusal instanceof InvalidJson)) throw refusal;
    console.log(refusal.code);
  }
}
