/**
 * An agent of the AI SDK that opens one ticket, however often it is killed, resumed or repeats itself.
 *
 *     npm install onceward ai@7 zod
 *     onceward serve                                    # in another terminal; prints a token
 *     ONCEWARD_TOKEN=ow_agent_… node agent.mjs
 *
 * The SDK keeps nothing durable. Messages and operation ids lie in ./ai-sdk.json (remove it to begin anew), as they would in a row of your database.
 */

import { readFile, rename, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Onceward } from "onceward";
import { gatewayTool, isWorthRepeating, KeptIds, stopAfter } from "onceward/ai-sdk";
import { z } from "zod";

export const TICKET = { title: "Printer", body: "It burns." };

/** A model without a key: it makes these calls, one message for each, and then is done. A call's id is always new. */
export function script(turns = [TICKET], tool = "create_ticket") {
  const usage = { inputTokens: {}, outputTokens: {} };
  const doGenerate = async ({ prompt }) => {
    const input = turns[prompt.filter(({ role }) => role === "tool").length];
    const call = { type: "tool-call", toolCallId: crypto.randomUUID(), toolName: tool, input: JSON.stringify(input) };
    const content = input ? [call] : [{ type: "text", text: "done" }];
    return { content, finishReason: { unified: input ? "tool-calls" : "stop" }, usage, warnings: [] };
  };
  return new MockLanguageModelV4({ doGenerate });
}

export function tools(client, ids) {
  const inputSchema = z.object({ title: z.string(), body: z.string() });
  return { create_ticket: gatewayTool(client, "create_ticket", ids, { description: "Opens a ticket at the helpdesk.", inputSchema }) };
}

/** Begins the run that lies in a file, or goes on where it was. It ends early at a call that is to be made again, as `endsAt` says. */
export async function run(file, toolsOf, model, endsAt = isWorthRepeating) {
  const kept = await readFile(file, "utf8").then(JSON.parse, () => ({ messages: [], operationIds: {} }));
  const save = async () => {
    await writeFile(`${file}.new`, JSON.stringify(kept), { flush: true });
    await rename(`${file}.new`, file);
  };
  if (kept.messages.length === 0) kept.messages.push({ role: "user", content: "Open a ticket: the printer burns." });
  const endsEarly = stopAfter(endsAt);
  await generateText({
    model,
    messages: [...kept.messages],
    tools: await toolsOf(new KeptIds(kept.operationIds, save)), // an id is in the file before its tool is called
    stopWhen: [isStepCount(20), endsEarly],
    onStepEnd: async (step) => {
      if (endsEarly({ steps: [step] })) return; // the next run makes this step anew, and its calls get the same ids
      kept.messages.push(...step.response.messages);
      await save();
    },
  });
  return kept.messages;
}

/** What the model saw of its tools. */
export function seen(messages) {
  const results = messages.flatMap(({ role, content }) => (role === "tool" ? content : []));
  return results.map(({ output: { value } }) => (typeof value === "string" ? value : JSON.stringify(value)));
}

async function main() {
  const client = new Onceward(); // ONCEWARD_URL, ONCEWARD_TOKEN
  const model = script(); // YOUR MODEL HERE: openai("gpt-…")
  const messages = await run("ai-sdk.json", (ids) => tools(client, ids), model);
  for (const text of seen(messages)) console.log("model saw:", text);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
