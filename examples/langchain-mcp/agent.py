"""A LangChain agent with the gateway's tools over MCP, that opens one ticket however often it is killed or repeats
itself.

    pip install onceward langchain langchain-mcp-adapters langgraph-checkpoint-sqlite aiosqlite
    onceward serve                                    # in another terminal; prints a token
    ONCEWARD_TOKEN=ow_agent_… python agent.py

Its state lies in ./langchain.db. Kill it wherever you like and run it again: it goes on where it was.
"""

import asyncio
import os

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from onceward.frameworks.langchain_mcp import OperationIdsInState, with_operation_id

TICKET = {"title": "Printer", "body": "It burns."}
RUN = {"configurable": {"thread_id": "run-7"}}


class Script(BaseChatModel):
    """A model without a key: it makes these calls, one message for each, and then is done. Each call has a new id."""

    turns: list = [TICKET]

    @property
    def _llm_type(self):
        return "script"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        made = sum(isinstance(message, AIMessage) for message in messages)
        message = AIMessage("done")
        if made < len(self.turns):
            call = {"name": "create_ticket", "args": self.turns[made], "id": f"call_{made}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


async def build(url, token, checkpointer, model=None):
    gateway = {"transport": "streamable_http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    client = MultiServerMCPClient({"onceward": gateway}, tool_interceptors=[with_operation_id])
    again = ToolRetryMiddleware(max_retries=2, initial_delay=0.1, retry_on=may_be_lost, on_failure="error")
    return create_agent(
        model or Script(),  # YOUR MODEL HERE: "anthropic:…"
        [one for one in await client.get_tools() if one.name == "create_ticket"],
        middleware=[again, OperationIdsInState()],
        checkpointer=checkpointer,
    )


def may_be_lost(error):
    return not isinstance(error, RuntimeError)


async def run(agent, message="Open a ticket: the printer burns."):
    """Begins the run, or goes on where it was."""
    begun = (await agent.aget_state(RUN)).values
    start = None if begun else {"messages": [("user", message)]}
    return await agent.ainvoke(start, RUN, durability="sync")  # "sync": the ids are on disk before a tool runs


def seen(state):
    """What the model saw of its tools."""
    return [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]


async def main():
    url = os.environ.get("ONCEWARD_URL", "http://127.0.0.1:7070")
    async with AsyncSqliteSaver.from_conn_string("langchain.db") as checkpointer:
        state = await run(await build(url, os.environ["ONCEWARD_TOKEN"], checkpointer))
    for text in seen(state):
        print("model saw:", text)
    for waiting in state.get("__interrupt__", ()):
        print("a person is needed:", waiting.value["message"])


if __name__ == "__main__":
    asyncio.run(main())
