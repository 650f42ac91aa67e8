"""The same agent with an own function as its tool: the application makes the ticket itself, and the gateway keeps what
became of it.

    HELPDESK_URL=http://127.0.0.1:7080 ONCEWARD_TOKEN=ow_agent_… python own_function.py
"""

import asyncio
import os

import httpx
from agent import TICKET, Script
from agents import Agent, Runner, set_tracing_disabled

from onceward import AsyncOnceward, Rejected, current_attempt
from onceward.frameworks.kept import KeptIds
from onceward.frameworks.openai_agents import operation_tool


def tool(client, helpdesk):
    @client.operation(
        "open_ticket",
        title="Ticket: {title}",
        not_sent=(httpx.ConnectError,),  # no connection, so surely no ticket
        effect_id=lambda ticket: ticket["id"],
    )
    async def open_ticket(title: str, body: str) -> dict:
        """Opens a ticket at the helpdesk."""
        async with httpx.AsyncClient(trust_env=False) as http:
            ticket = {"title": title, "body": body, "reference": current_attempt().outbound_key}
            answer = await http.post(f"{helpdesk}/tickets", json=ticket)
        if answer.is_client_error:
            raise Rejected(answer.json())  # this helpdesk's 4xx come before any ticket
        return answer.raise_for_status().json()

    return operation_tool(open_ticket, lambda ids: ids)  # the run's context is its ids


async def run(client, helpdesk, ids, model):
    set_tracing_disabled(True)
    agent = Agent(name="helpdesk", model=model, tools=[tool(client, helpdesk)])
    await Runner.run(agent, "Open a ticket: the printer burns.", context=ids)


async def main():
    model = Script([TICKET], tool="open_ticket")  # YOUR MODEL HERE: "gpt-…"
    async with AsyncOnceward() as client:  # ONCEWARD_URL, ONCEWARD_TOKEN
        helpdesk = os.environ.get("HELPDESK_URL", "http://127.0.0.1:7080")
        await run(client, helpdesk, KeptIds("openai-agents.db", run="run-7"), model)
    for text in model.saw:
        print("model saw:", text)


if __name__ == "__main__":
    asyncio.run(main())
