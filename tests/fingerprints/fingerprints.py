"""Reads calls as JSON lines {"tool", "version", "arguments": text}, and prints the fingerprint of each, or the code of its refusal.

The argument is the client's file, taken alone.
"""

import importlib.util
import json
import sys

SPEC = importlib.util.spec_from_file_location("fingerprint", sys.argv[1])
MODULE = importlib.util.module_from_spec(SPEC)
sys.modules["fingerprint"] = MODULE
SPEC.loader.exec_module(MODULE)
fingerprint, InvalidJson = MODULE.fingerprint, MODULE.InvalidJson

for line in sys.stdin:
    call = json.loads(line)
    try:
        print(fingerprint(call["tool"], call["version"], call["arguments"]))
    except InvalidJson as refusal:
        print(refusal.code)
