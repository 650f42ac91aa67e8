"""Operation ids in a SQLite file, for a framework that keeps nothing durable of its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from ..fingerprint import fingerprint
from ..ids import new_operation_id


class KeptIds:
    """The operation ids of one run. An id is on disk before `of` returns it; two processes that ask at one moment get
    the same.

        ids = KeptIds("agent.db", run="conversation-7")

    `run` names what belongs together: a conversation, an order, a row of work. Within it an equal call is the same
    intention, whatever the model calls it. Use the name again after a crash, and another one for another piece of work.
    """

    def __init__(self, file: str | Path, run: str) -> None:
        self._file = str(file)
        self._run = run
        with self._opened() as rows:
            rows.execute(
                "CREATE TABLE IF NOT EXISTS operation_ids"
                " (run TEXT NOT NULL, call TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (run, call))"
            )

    def of(self, tool: str, arguments: dict[str, Any]) -> str:
        """The id of this call: made at first sight, the same ever after. Raises `InvalidJson`."""
        call = (self._run, fingerprint(tool, "1", arguments))
        with self._opened() as rows:
            rows.execute("INSERT OR IGNORE INTO operation_ids VALUES (?, ?, ?)", (*call, new_operation_id()))
            return str(rows.execute("SELECT id FROM operation_ids WHERE run = ? AND call = ?", call).fetchone()[0])

    def second(self, tool: str, arguments: dict[str, Any]) -> str:
        """A new id for a call that was made before and is meant once more. Never for a repetition of the first."""
        call = (self._run, fingerprint(tool, "1", arguments))
        operation = new_operation_id()
        with self._opened() as rows:
            rows.execute("INSERT OR REPLACE INTO operation_ids VALUES (?, ?, ?)", (*call, operation))
        return operation

    def _opened(self) -> _Rows:
        return _Rows(self._file)


class _Rows:
    """One transaction on a connection of its own, so that threads need not share one. It commits at the end."""

    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(file, timeout=30)
        self._connection.execute("PRAGMA synchronous = FULL")

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._connection.commit()
        finally:
            self._connection.close()
