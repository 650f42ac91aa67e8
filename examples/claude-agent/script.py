"""A stand-in for the CLI of the Claude Agent SDK, whose model is a script: it speaks the SDK's control protocol, asks
its hooks and calls its tools, so that the example runs without the CLI and without a key.
"""

import asyncio
import json
import os

from claude_agent_sdk import Transport

RESULT = {
    "type": "result",
    "subtype": "success",
    "duration_ms": 1,
    "duration_api_ms": 1,
    "is_error": False,
    "num_turns": 1,
    "session_id": "scripted",
    "result": "done",
}


class ScriptedCli(Transport):
    def __init__(self, tool, *turns):
        self.tool = tool  # mcp__<server>__<name>
        self.turns = turns
        self.saw = []  # what the model saw of its tools
        self._out = asyncio.Queue()
        self._asked = {}
        self._hooks = []
        self._running = None

    async def connect(self):
        pass

    def is_ready(self):
        return True

    async def end_input(self):
        pass

    async def close(self):
        if self._running:
            self._running.cancel()
        await self._out.put(None)

    async def write(self, data):
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_request":
                for matcher in (message["request"].get("hooks") or {}).get("PreToolUse", []):
                    self._hooks += matcher["hookCallbackIds"]
                response = {"commands": [], "hook_on_failure_supported": True}
                answer = {"subtype": "success", "request_id": message["request_id"], "response": response}
                await self._out.put({"type": "control_response", "response": answer})
            elif message["type"] == "control_response":
                response = message["response"]
                self._asked.pop(response["request_id"]).set_result(response)
            elif message["type"] == "user":
                self._running = asyncio.ensure_future(self._run())

    async def read_messages(self):
        while (message := await self._out.get()) is not None:
            yield message

    async def _run(self):
        _, server, name = self.tool.split("__")
        await self._mcp(
            server,
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "script", "version": "1"},
        )
        for arguments in self.turns:
            use = f"toolu_{os.urandom(4).hex()}"
            for hook in self._hooks:
                call = {
                    "hook_event_name": "PreToolUse",
                    "tool_name": self.tool,
                    "tool_input": arguments,
                    "tool_use_id": use,
                }
                asked = await self._ask(subtype="hook_callback", callback_id=hook, tool_use_id=use, input=call)
                if asked["subtype"] != "success":
                    self.saw.append(f"blocked by a hook: {asked['error']}")
                    break
            else:
                answer = await self._mcp(server, "tools/call", name=name, arguments=arguments)
                self.saw.append(answer["result"]["content"][0]["text"])
        await self._out.put(RESULT)

    async def _mcp(self, server, method, **params):
        message = {"jsonrpc": "2.0", "id": len(self.saw) + 1, "method": method, "params": params}
        answer = await self._ask(subtype="mcp_message", server_name=server, message=message)
        return answer["response"]["mcp_response"]

    async def _ask(self, **request):
        name = os.urandom(4).hex()
        self._asked[name] = asyncio.get_running_loop().create_future()
        await self._out.put({"type": "control_request", "request_id": name, "request": request})
        return await self._asked[name]
