"""Runs agents of LangChain, OpenAI Agents or Pydantic AI, unchanged, whose model is a script.

The plan is JSON on standard input: {"framework", "agents": [{"after_ms", "turns": [[arguments, ...], ...]}]}. Every turn of an agent
is one message of its model with a call of create_ticket for each of the arguments; the framework makes them as it always does.
All agents run at once, each with a connection of its own. Printed is, for each agent, what its model saw after each call, as text.
"""

import asyncio
import json
import os
import sys

TOOL = "create_ticket"
URL = os.environ["GATEWAY"] + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOKEN']}"}


async def langchain(plan):
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_mcp_adapters.client import MultiServerMCPClient

    class Script(BaseChatModel):
        turns: list
        made: int = 0

        @property
        def _llm_type(self):
            return "script"

        def bind_tools(self, tools, **kwargs):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            if self.made == len(self.turns):
                return ChatResult(generations=[ChatGeneration(message=AIMessage("done"))])
            calls = [
                {"name": TOOL, "args": arguments, "id": f"call_{self.made}_{n}"}
                for n, arguments in enumerate(self.turns[self.made])
            ]
            self.made += 1
            return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])

    server = {"transport": "streamable_http", "url": URL, "headers": HEADERS}
    tools = await MultiServerMCPClient({"onceward": server}).get_tools()
    agent = create_agent(Script(turns=plan["turns"]), tools)
    await asyncio.sleep(plan["after_ms"] / 1000)
    state = await agent.ainvoke({"messages": [("user", "Open a ticket.")]})
    return [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]


async def openai(plan):
    from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
    from agents.mcp import MCPServerStreamableHttp
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Script(Model):
        def __init__(self):
            self.made = 0
            self.saw = []

        async def get_response(self, system_instructions, input, *args, **kwargs):
            outputs = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
            self.saw = [str(item["output"]) for item in outputs]
            if self.made == len(plan["turns"]):
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                said = ResponseOutputMessage(
                    id="msg_1", role="assistant", status="completed", type="message", content=[text]
                )
                return ModelResponse(output=[said], usage=Usage(), response_id=None)
            calls = [
                ResponseFunctionToolCall(
                    type="function_call", call_id=f"call_{self.made}_{n}", name=TOOL, arguments=json.dumps(arguments)
                )
                for n, arguments in enumerate(plan["turns"][self.made])
            ]
            self.made += 1
            return ModelResponse(output=calls, usage=Usage(), response_id=None)

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError("the run is not streamed")

    set_tracing_disabled(True)
    script = Script()
    params = {"url": URL, "headers": HEADERS}
    # The framework gives up on a call after five seconds of its own; a slow machine is not what is tested here.
    async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=60) as server:
        agent = Agent(name="scripted", model=script, mcp_servers=[server])
        await asyncio.sleep(plan["after_ms"] / 1000)
        await Runner.run(agent, "Open a ticket.")
    return script.saw


async def pydantic(plan):
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    saw = []
    made = 0

    def script(messages, info):
        nonlocal made
        last = messages[-1].parts
        saw.extend(
            part.model_response() if isinstance(part, RetryPromptPart) else part.model_response_str()
            for part in last
            if isinstance(part, (ToolReturnPart, RetryPromptPart))
        )
        if made == len(plan["turns"]):
            return ModelResponse(parts=[TextPart("done")])
        made += 1
        return ModelResponse(parts=[ToolCallPart(TOOL, arguments) for arguments in plan["turns"][made - 1]])

    # An error result is a retry to this framework; how many it allows is the application's choice.
    server = MCPToolset(URL, headers=HEADERS, max_retries=9)
    agent = Agent(FunctionModel(script), toolsets=[server])
    async with agent:
        await asyncio.sleep(plan["after_ms"] / 1000)
        await agent.run("Open a ticket.")
    return saw


async def main():
    plan = json.load(sys.stdin)
    run = {"langchain": langchain, "openai": openai, "pydantic": pydantic}[plan["framework"]]
    saw = await asyncio.gather(*(run(agent) for agent in plan["agents"]))
    print(json.dumps({"saw": saw}))


asyncio.run(main())
