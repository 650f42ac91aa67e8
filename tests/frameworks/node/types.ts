/** What the frameworks' own types accept of the adapters. It is compiled by types.test.mjs and never run. */

import { createMCPClient } from "@ai-sdk/mcp";
import { Client, StreamableHTTPClientTransport, type CallToolResult } from "@modelcontextprotocol/client";
import { generateText, isStepCount, streamText, tool, ToolLoopAgent, type LanguageModel, type ToolSet } from "ai";
import { Onceward } from "onceward";
import { fetchWithOperationIds, gatewayTool, isWorthRepeating, KeptIds, operationTool, stopAfter } from "onceward/ai-sdk";
import { callTool } from "onceward/mcp";
import { z } from "zod";

declare const model: LanguageModel;

const client = new Onceward();
const ids = new KeptIds(undefined, async () => {});
const inputSchema = z.object({ title: z.string(), body: z.string().default("") });
const own = client.operation("open_ticket", { input: inputSchema }, async ({ title }) => ({ id: title.length }));
const tools = {
  create_ticket: gatewayTool(client, "create_ticket", ids, {
    description: "Opens a ticket.",
    inputSchema,
    toModelOutput: () => ({ type: "text" as const, value: "It is open." }),
  }),
  open_ticket: operationTool(own, ids),
  by_tool: tool(gatewayTool(client, "create_ticket", ids, { inputSchema })),
};
tools satisfies ToolSet;

const result = await generateText({ model, tools, prompt: "", stopWhen: [isStepCount(20), stopAfter(isWorthRepeating)] });
for (const call of result.toolCalls) if (!call.dynamic && call.toolName === "open_ticket") call.input.title satisfies string;
for (const done of result.toolResults) if (!done.dynamic && done.toolName === "open_ticket") done.output.id satisfies number;
streamText({ model, tools, prompt: "", stopWhen: stopAfter(isWorthRepeating) });
new ToolLoopAgent({ model, tools, stopWhen: [isStepCount(20), stopAfter(isWorthRepeating)] });

const http = { type: "http", url: "http://127.0.0.1:7070/mcp", fetch: fetchWithOperationIds(ids) } as const;
await generateText({ model, tools: await (await createMCPClient({ transport: http })).tools(), prompt: "" });

const mcp = new Client({ name: "types", version: "1.0.0" });
await mcp.connect(new StreamableHTTPClientTransport(new URL(http.url), { fetch: fetchWithOperationIds(ids) }));
(await callTool(mcp, "create_ticket", { title: "Printer" }, { operation: "ticket-17", timeout: 10 })) satisfies CallToolResult;
// @ts-expect-error a call without its operation id
await callTool(mcp, "create_ticket", { title: "Printer" }, { timeout: 10 });
// @ts-expect-error an option that the client does not have
await callTool(mcp, "create_ticket", { title: "Printer" }, { operation: "ticket-17", timeOut: 10 });
