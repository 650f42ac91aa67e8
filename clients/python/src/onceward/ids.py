"""Operation ids: one name for one intention."""

from __future__ import annotations

import os
import time
import uuid
from typing import Any

from .fingerprint import fingerprint


def new_operation_id() -> str:
    """A new operation id: the text of a UUIDv7, which begins with its time and sorts by it.

    Make one where the intention is made (the approved row, the message, the order), store it **before** the call, and
    use it for every repetition. Never make one on a repetition: to the ledger a new id is a new intention, and the
    write happens again.
    """
    milliseconds = time.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10), "big")
    number = (milliseconds & (2**48 - 1)) << 80 | chance
    number = number & ~(0xF << 76) | 0x7 << 76  # version 7
    number = number & ~(0x3 << 62) | 0x2 << 62  # the variant of RFC 9562
    return str(uuid.UUID(int=number))


class OperationIds:
    """Operation ids for an application whose model makes its calls anew after a restart.

    The framework runs the model again, the model asks for the same call again, and nothing says that it is a repetition
    but the call itself. This is a small map from a call to its id, kept in the durable state of that one run (a
    checkpoint, a row of a conversation): within it the same tool with the same arguments is the same intention.

        ids = OperationIds(state.setdefault("operation_ids", {}))
        operation = ids.of("create_report", arguments)
        save(state)                          # before the call, or a crash loses the id and the repetition gets another
        create_report.under(operation)(**arguments)

    `state` is a plain dict that JSON takes, changed in place. It has fingerprints in it and no arguments.
    """

    def __init__(self, state: dict[str, str] | None = None) -> None:
        self.state: dict[str, str] = {} if state is None else state

    def of(self, tool: str, arguments: dict[str, Any]) -> str:
        """The id of this call: made at first sight, the same ever after."""
        key = fingerprint(tool, "1", arguments)
        if key not in self.state:
            self.state[key] = new_operation_id()
        return self.state[key]

    def known(self, tool: str, arguments: dict[str, Any]) -> str | None:
        """The id of this call, if it has one already. Makes none."""
        return self.state.get(fingerprint(tool, "1", arguments))

    def second(self, tool: str, arguments: dict[str, Any]) -> str:
        """A new id for a call that was made before and is meant once more. From now on `of` gives this one.

        For a second one that somebody asked for; never for a repetition of the first.
        """
        key = fingerprint(tool, "1", arguments)
        self.state[key] = new_operation_id()
        return self.state[key]
