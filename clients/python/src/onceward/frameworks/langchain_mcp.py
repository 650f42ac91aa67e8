"""LangChain agents (`create_agent`) with the gateway's tools over MCP (`langchain-mcp-adapters`).

    client = MultiServerMCPClient({"onceward": {…}}, tool_interceptors=[with_operation_id])
    agent = create_agent(model, await client.get_tools(), middleware=[OperationIdsInState()], checkpointer=…)
    await agent.ainvoke(…, durability="sync")

The middleware mints the ids into the agent's state, after the model and before any tool; the interceptor puts them on
the calls. Own tools with a parameter `operation: OperationId` get them too (`onceward.frameworks.langgraph`).

The interceptor carries the id in the header of a connection that is made for this one call, which is what
`MultiServerMCPClient.get_tools` does. Tools of `load_mcp_tools(session)` share a connection and cannot carry one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.interceptors import MCPToolCallRequest

from . import langgraph as graph
from .mcp import checked


class OperationAgentState(AgentState[Any], graph.OperationState):
    """The state of such an agent."""


class OperationIdsInState(AgentMiddleware[Any, Any]):
    """Mints the ids of a message's calls into the agent's state, and pauses the run where a person is needed. Put it
    last, nearest to the tools.
    """

    state_schema = OperationAgentState

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        return graph.mint(state) if isinstance(last, AIMessage) and last.tool_calls else None

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return graph.with_operation_id(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        return await graph.awith_operation_id(request, handler)


async def with_operation_id(
    request: MCPToolCallRequest, handler: Callable[[MCPToolCallRequest], Awaitable[Any]]
) -> Any:
    """The interceptor. An unknown is raised as `OperationUnknown`, which the middleware makes a pause."""
    state = getattr(request.runtime, "state", {})
    if "operation_id" not in state:
        raise RuntimeError("this call has no operation id: the agent needs the middleware OperationIdsInState")
    return checked(await handler(request.override(headers={"Idempotency-Key": state["operation_id"]})))
