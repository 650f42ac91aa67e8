/**
 * The same agent with the gateway's tools over MCP. The ids are put on the calls by the transport's `fetch`.
 *
 *     npm install onceward ai@7 @ai-sdk/mcp zod
 *     ONCEWARD_TOKEN=ow_agent_… node mcp.mjs
 */

import { pathToFileURL } from "node:url";

import { createMCPClient } from "@ai-sdk/mcp";
import { fetchWithOperationIds } from "onceward/ai-sdk";

import { run, script, seen } from "./agent.mjs";

export async function runOverMcp(url, token, file, model, endsAt) {
  let gateway;
  const toolsOf = async (ids) => {
    const headers = { Authorization: `Bearer ${token}` };
    const transport = { type: "http", url: `${url}/mcp`, headers, fetch: fetchWithOperationIds(ids) };
    gateway = await createMCPClient({ transport, maxRetries: 2 }); // its own retries are safe: each has the same operation id
    return gateway.tools();
  };
  try {
    return await run(file, toolsOf, model, endsAt);
  } finally {
    await gateway?.close();
  }
}

async function main() {
  const url = process.env.ONCEWARD_URL ?? "http://127.0.0.1:7070";
  const model = script(); // YOUR MODEL HERE: openai("gpt-…")
  const messages = await runOverMcp(url, process.env.ONCEWARD_TOKEN, "ai-sdk-mcp.json", model);
  for (const text of seen(messages)) console.log("model saw:", text);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
