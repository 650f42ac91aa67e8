"""An agent of the OpenAI Agents SDK with the gateway's tools over MCP, that opens one ticket however often it is killed
or repeats itself.

    pip install onceward openai-agents
    onceward serve                                    # in another terminal; prints a token
    ONCEWARD_TOKEN=ow_agent_… python agent.py

The operation ids lie in ./openai-agents.db, written before each call. Kill it wherever you like and run it again.
"""

import asyncio
import json
import os

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from onceward.frameworks.kept import KeptIds
from onceward.frameworks.openai_agents import operation_meta

TICKET = {"title": "Printer", "body": "It burns."}


class Script(Model):
    """A model without a key: it makes these calls, one message for each, and then is done. Each call has a new id."""

    def __init__(self, turns=(TICKET,), tool="create_ticket"):
        self.turns = list(turns)
        self.tool = tool
        self.saw = []

    async def get_response(self, system_instructions, input, *args, **kwargs):
        outputs = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        self.saw = [str(item["output"]) for item in outputs]
        if len(outputs) < len(self.turns):
            arguments = json.dumps(self.turns[len(outputs)])
            call_id = f"call_{os.urandom(4).hex()}"
            item = ResponseFunctionToolCall(type="function_call", call_id=call_id, name=self.tool, arguments=arguments)
        else:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            item = ResponseOutputMessage(id="msg", role="assistant", status="completed", type="message", content=[text])
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError("the run is not streamed")


def gateway(url, token, patience_s):
    return MCPServerStreamableHttp(
        params={"url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {token}"}},
        tool_meta_resolver=operation_meta(lambda ids: ids),  # the run's context is its ids
        max_retry_attempts=2,  # safe: each has the same operation id
        client_session_timeout_seconds=patience_s,
    )


async def run(url, token, ids, model, patience_s=30):
    set_tracing_disabled(True)
    async with gateway(url, token, patience_s) as server:
        agent = Agent(name="helpdesk", model=model, mcp_servers=[server])
        await Runner.run(agent, "Open a ticket: the printer burns.", context=ids)


async def main():
    url = os.environ.get("ONCEWARD_URL", "http://127.0.0.1:7070")
    model = Script()  # YOUR MODEL HERE: "gpt-…"
    await run(url, os.environ["ONCEWARD_TOKEN"], KeptIds("openai-agents.db", run="run-7"), model)
    for text in model.saw:
        print("model saw:", text)


if __name__ == "__main__":
    asyncio.run(main())
