"""A LangGraph agent that opens one ticket, however often it is killed, resumed or repeats itself.

    pip install onceward langgraph langgraph-checkpoint-sqlite
    onceward serve                                    # in another terminal; prints a token
    ONCEWARD_TOKEN=ow_agent_… python agent.py

Its state lies in ./langgraph.db. Kill it wherever you like and run it again: it goes on where it was.
"""

import sqlite3

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import RetryPolicy

from onceward import Onceward
from onceward.frameworks.langgraph import OperationId, OperationState, each_call, mint, tool_node

TICKET = {"title": "Printer", "body": "It burns."}
RUN = {"configurable": {"thread_id": "run-7"}}


class Script(BaseChatModel):
    """A model without a key: it makes these calls, one message for each, and then is done. Each call has a new id."""

    turns: list = [TICKET]

    @property
    def _llm_type(self):
        return "script"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        made = sum(isinstance(message, AIMessage) for message in messages)
        message = AIMessage("done")
        if made < len(self.turns):
            call = {"name": "create_ticket", "args": self.turns[made], "id": f"call_{made}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def build(client, checkpointer, model=None):
    @tool
    def create_ticket(title: str, body: str, operation: OperationId) -> dict:
        """Opens a ticket at the helpdesk."""
        return client.call("create_ticket", {"title": title, "body": body}, operation=operation).body

    model = model or Script()  # YOUR MODEL HERE: init_chat_model("…").bind_tools([create_ticket])

    graph = StateGraph(OperationState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("mint", mint)
    graph.add_node("tools", tool_node([create_ticket]), retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.1))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "mint", "__end__": "__end__"})
    graph.add_conditional_edges("mint", each_call, ["tools"])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def run(graph, message="Open a ticket: the printer burns."):
    """Begins the run, or goes on where it was."""
    begun = graph.get_state(RUN).values
    start = None if begun else {"messages": [("user", message)]}
    return graph.invoke(start, RUN, durability="sync")  # "sync": the ids are on disk before a tool runs


def seen(state):
    """What the model saw of its tools."""
    return [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]


def main():
    with Onceward() as client:  # ONCEWARD_URL, ONCEWARD_TOKEN
        connection = sqlite3.connect("langgraph.db", check_same_thread=False)
        state = run(build(client, SqliteSaver(connection)))
    for text in seen(state):
        print("model saw:", text)
    for waiting in state.get("__interrupt__", ()):
        print("a person is needed:", waiting.value["message"])


if __name__ == "__main__":
    main()
