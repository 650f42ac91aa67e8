/**
 * The same agent with an own function as its tool: the application makes the ticket itself, and the gateway keeps what became of it.
 *
 *     HELPDESK_URL=http://127.0.0.1:7080 ONCEWARD_TOKEN=ow_agent_… node own-function.mjs
 */

import { pathToFileURL } from "node:url";

import { Onceward } from "onceward";
import { operationTool } from "onceward/ai-sdk";
import { z } from "zod";

import { run, script, seen, TICKET } from "./agent.mjs";

export function tools(client, helpdesk, ids) {
  const openTicket = client.operation(
    "open_ticket",
    {
      input: z.object({ title: z.string(), body: z.string(), customer: z.string().default("acme") }),
      description: "Opens a ticket at the helpdesk.",
      title: ({ title }) => `Ticket: ${title}`,
      effectId: (ticket) => ticket.id,
    },
    async (ticket, { outboundKey, signal }) => {
      const body = JSON.stringify({ ...ticket, reference: outboundKey });
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${helpdesk}/tickets`, { method: "POST", headers, body, signal });
      if (!answer.ok) throw new Error(`the helpdesk said ${answer.status}`);
      return await answer.json();
    },
  );
  return { open_ticket: operationTool(openTicket, ids) };
}

async function main() {
  const client = new Onceward(); // ONCEWARD_URL, ONCEWARD_TOKEN
  const helpdesk = process.env.HELPDESK_URL ?? "http://127.0.0.1:7080";
  const model = script([TICKET], "open_ticket"); // YOUR MODEL HERE: openai("gpt-…")
  const messages = await run("ai-sdk-own-function.json", (ids) => tools(client, helpdesk, ids), model);
  for (const text of seen(messages)) console.log("model saw:", text);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
