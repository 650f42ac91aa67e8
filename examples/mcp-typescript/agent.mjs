/**
 * A loop of an application's own around a model, with the gateway's tools over plain MCP. It opens one ticket, however often it is
 * killed or repeats itself.
 *
 *     npm install onceward @modelcontextprotocol/client
 *     onceward serve                                    # in another terminal; prints a token
 *     ONCEWARD_TOKEN=ow_agent_… node agent.mjs
 *
 * The conversation and the operation ids lie in ./mcp.json, as they would in a row of your database.
 */

import { readFile, rename, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { OncewardError } from "onceward";
import { callTool, isWorthRepeating, KeptIds } from "onceward/mcp";

export const TICKET = { title: "Printer", body: "It burns." };

/** A model without a key: it makes these calls, one after the other, and then is done. A call's id is always new. */
export function script(turns = [TICKET]) {
  return async (messages) => {
    const args = turns[messages.length];
    return args && { id: crypto.randomUUID(), name: "create_ticket", arguments: args };
  };
}

export async function connect(url, token, options = { versionNegotiation: { mode: "auto" } }) {
  const client = new Client({ name: "helpdesk-agent", version: "1.0.0" }, options);
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }));
  return client;
}

/** Begins the run that lies in a file, or goes on where it was. What the model saw, call by call. */
export async function run(client, file, model) {
  const kept = await readFile(file, "utf8").then(JSON.parse, () => ({ messages: [], operationIds: {} }));
  const save = async () => {
    await writeFile(`${file}.new`, JSON.stringify(kept), { flush: true });
    await rename(`${file}.new`, file);
  };
  const ids = new KeptIds(kept.operationIds, save);
  for (;;) {
    const call = await model(kept.messages);
    if (!call) return kept.messages.map(({ saw }) => saw);
    const operation = await ids.of(call.name, call.arguments); // it is in the file before the tool is called
    kept.messages.push({ call, saw: await told(client, call, operation) });
    await save();
  }
}

/** What the model is told of its call. Where no answer came the call is made again, three times in all and under one id. */
async function told(client, call, operation) {
  for (let times = 1; ; times++) {
    try {
      const { content } = await callTool(client, call.name, call.arguments, { operation, timeout: 30_000 });
      return content.map(({ text }) => text).join("\n");
    } catch (error) {
      if (error instanceof OncewardError && !isWorthRepeating(error)) return error.message;
      if (times === 3) throw error;
    }
  }
}

async function main() {
  const client = await connect(process.env.ONCEWARD_URL ?? "http://127.0.0.1:7070", process.env.ONCEWARD_TOKEN);
  const model = script(); // YOUR MODEL HERE: a function from the messages so far to its next call
  for (const text of await run(client, "mcp.json", model)) console.log("model saw:", text);
  await client.close();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
