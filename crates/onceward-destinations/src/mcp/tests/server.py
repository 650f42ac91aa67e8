"""An MCP server over a pipe whose tools break off where a test says. It needs nothing but Python."""

import json
import os
import subprocess
import sys
import threading
import time

FOLDER = sys.argv[1]
MODE = sys.argv[2] if len(sys.argv) > 2 else "legacy"


def note(name, text):
    with open(os.path.join(FOLDER, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools():
    names = ["write", "write_and_die", "write_and_hang", "write_slowly", "fail_slowly", "progress", "child", "lost_output", "get_notes", "huge", "fail", "die"]
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def call(id, params):
    name, arguments = params["name"], params.get("arguments", {})
    text = {"content": [{"type": "text", "text": "done"}]}
    if name == "get_notes":
        path = os.path.join(FOLDER, "notes")
        lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
        notes = [json.loads(line) for line in lines]
        return say({"id": id, "result": {"content": [], "structuredContent": {"notes": notes}}})
    if name == "fail_slowly":
        time.sleep(0.3)
    if name in ("fail", "fail_slowly"):
        return say({"id": id, "result": {"content": [{"type": "text", "text": arguments["text"]}], "isError": True}})
    if name == "die":
        os._exit(3)
    note("writes", str(arguments.get("title", "")))
    note("notes", json.dumps(arguments))
    if name == "write_and_die":
        os._exit(3)
    if name == "write_and_hang":
        return None
    if name == "lost_output":
        os.close(1)
        return time.sleep(60)
    if name == "child":
        child = subprocess.Popen(["sleep", "600"])
        note("children", str(child.pid))
    if name == "progress":
        token = params.get("_meta", {}).get("progressToken")
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    if name == "huge":
        text["content"][0]["text"] = "x" * (2 * 1024 * 1024)
    if name == "write_slowly":
        time.sleep(0.3)
    return say({"id": id, "result": text})


def answer(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "server/discover":
        if MODE == "silent":
            return
        if MODE == "exits":
            os._exit(1)
        if MODE == "modern":
            return say({"id": id, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
                                             "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}})
        return say({"id": id, "error": {"code": -32601, "message": "Method not found"}})
    if method == "initialize":
        note("starts", str(os.getpid()))
        return say({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                         "serverInfo": {"name": "pipe", "version": "1"}}})
    if method == "tools/list":
        return say({"id": id, "result": {"tools": tools()}})
    if method == "tools/call":
        return threading.Thread(target=call, args=(id, params), daemon=True).start()


note("environment", json.dumps(dict(os.environ)))
print("a line that is no message", flush=True)
for line in sys.stdin:
    answer(json.loads(line))
note("ends", "input ended")
