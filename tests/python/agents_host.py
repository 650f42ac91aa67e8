"""Runs an agent of openai-agents whose model is a script: it makes the same tool call again and again.

The plan is JSON on standard input: {"tool", "arguments", "pauses": [seconds before each call]}. Printed is what the model saw
after each of its calls. Nothing of the framework is changed: it gives up on a call after its own five seconds.
"""

import asyncio
import json
import os
import sys

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class Script(Model):
    """A model that repeats its call, with a new call id each time, as models do."""

    def __init__(self, plan):
        self.plan = plan
        self.made = 0
        self.saw = []

    async def get_response(self, system_instructions, input, *args, **kwargs):
        outputs = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        self.saw = [item["output"] for item in outputs]
        if self.made == len(self.plan["pauses"]):
            return self.says(
                ResponseOutputMessage(
                    id="msg_1",
                    role="assistant",
                    status="completed",
                    type="message",
                    content=[ResponseOutputText(text="done", type="output_text", annotations=[])],
                )
            )
        await asyncio.sleep(self.plan["pauses"][self.made])
        self.made += 1
        return self.says(
            ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call_{self.made}",
                name=self.plan["tool"],
                arguments=json.dumps(self.plan["arguments"]),
            )
        )

    def says(self, item):
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError("the run is not streamed")


async def main():
    set_tracing_disabled(True)
    script = Script(json.load(sys.stdin))
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    params = {"url": os.environ["GATEWAY"] + "/mcp", "headers": headers}
    async with MCPServerStreamableHttp(params=params) as server:
        agent = Agent(name="scripted", model=script, mcp_servers=[server])
        await Runner.run(agent, "Open a ticket.")
    print(json.dumps({"saw": script.saw}))


asyncio.run(main())
