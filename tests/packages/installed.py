"""What an installed client does against a gateway from the same package. The first word says what: `calls`, `dies` or `looks`.

Effects are lines of the file that the second word names: what was really done, whatever anybody was told.
"""

import os
import signal
import sys
from pathlib import Path

import onceward
from onceward import ABSENT, Absent, Due, Found, Onceward, OperationUnknown, new_operation_id

EFFECTS = Path(sys.argv[2])
client = Onceward()


def effects() -> list[str]:
    return EFFECTS.read_text().split() if EFFECTS.exists() else []


@client.operation("write_line", settle_within_ms=1_000)
def write_line(name: str, die: bool = False) -> dict:
    with EFFECTS.open("a") as file:
        file.write(f"{name}\n")
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"name": name}


@write_line.lookup(visible_after_ms=0, works_for_ms=1_000, absences_required=1)
def find_line(due: Due) -> Found | Absent:
    name = due.arguments["name"]
    if name in effects():
        return Found(by="marker", parameters="same", effect_id=name, body={"name": name})
    return ABSENT


if sys.argv[1] == "calls":
    assert client.handshake().version == onceward.__version__, "the client and its gateway are one release"
    operation = new_operation_id()
    ticket = {"title": "Printer", "body": "It burns."}
    first = client.call("create_ticket", ticket, operation=operation)
    again = client.call("create_ticket", ticket, operation=operation)
    assert (first.outcome, again.outcome) == ("executed", "replayed") and first.body == again.body
    own = new_operation_id()
    assert write_line(name="one", operation=own) == write_line(name="one", operation=own) == {"name": "one"}
    assert effects() == ["one"], effects()
elif sys.argv[1] == "dies":
    write_line(name="two", die=True, operation="dies-1")
elif sys.argv[1] == "looks":
    while True:
        status = client.status("dies-1", wait_ms=1_000)
        if status.state == "unknown":
            break
    try:
        write_line(name="two", die=True, operation="dies-1")
        raise AssertionError("it ran again")
    except OperationUnknown as error:
        print("before the lookup:", error.message)
    while not client.run_due_lookups():
        pass
    assert write_line(name="two", die=True, operation="dies-1") == {"name": "two"}
    assert effects().count("two") == 1, effects()
print("well")
