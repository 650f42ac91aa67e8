"""Looking for the effect of a run whose settlement was lost: what is asked, what is found, and how it is reported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Any, Literal

from . import _limits as limits
from . import _wire as wire
from ._wire import Reply, Request
from .answer import refusal
from .errors import GatewayUnreachable, Refused

LOG = logging.getLogger("onceward")


@dataclass(frozen=True)
class Due:
    """A run that may have had its effect, and what there is to look for it by."""

    operation_id: str
    tool: str
    arguments: Mapping[str, Any]
    outbound_keys: tuple[str, ...]
    """What the function was given as `outbound_key`, for each run that may have had its effect."""
    sent_from: str | None
    """Not before this, and not after `sent_until`, did it begin (RFC 3339)."""
    sent_until: str | None

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Due:
        return cls(
            operation_id=raw["operation_id"],
            tool=raw["tool"],
            arguments=raw.get("arguments") or {},
            outbound_keys=tuple(raw.get("outbound_keys") or ()),
            sent_from=raw.get("sent_from"),
            sent_until=raw.get("sent_until"),
        )


@dataclass(frozen=True)
class Found:
    """One thing that was found.

    Found by the outbound key, or by a marker that it was written into, with the same parameters, it settles the
    operation. A resemblance is for a person, and two things are a disagreement.
    """

    by: Literal["outbound_key", "marker", "resemblance"]
    parameters: Literal["same", "different", "not_compared"]
    effect_id: str | None = None
    body: Any = None
    """JSON: what a repetition gets in the place of what the function would have returned, so it is what `encode` makes
    of that.
    """

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = {"by": self.by, "parameters": self.parameters}
        if self.effect_id is not None:
            report["effect_id"] = str(self.effect_id)
        if self.body is not None:
            report["receipt"] = {"body": self.body}
        return report


class Absent(Enum):
    """That everything was seen, and it was not there. It frees the operation in the end, so it is never said by leaving
    something out: a lookup that forgets its `return` says nothing.
    """

    ABSENT = "absent"


ABSENT: Literal[Absent.ABSENT] = Absent.ABSENT


@dataclass(frozen=True)
class Cut:
    """What was found, where not everything was seen (a list with more pages): its absences prove nothing."""

    found: Found | list[Found] | Literal[Absent.ABSENT] = ABSENT


Looked = Found | list[Found] | Cut | Literal[Absent.ABSENT]
"""What a lookup returns; `[]` is `ABSENT` as well."""


@dataclass(frozen=True)
class Lookup:
    """How an own function's effect is looked for. The figures go with each claim and are pinned with its operation."""

    function: Callable[[Due], Any]
    visible_after_ms: int
    works_for_ms: int | None
    absences_required: int | None

    def figures(self) -> dict[str, int]:
        figures = {
            "visible_after_ms": self.visible_after_ms,
            "works_for_ms": self.works_for_ms,
            "absences_required": self.absences_required,
        }
        return {name: figure for name, figure in figures.items() if figure is not None}


def lookup(
    function: Callable[[Due], Any], visible_after_ms: int, works_for_ms: int | None, absences_required: int | None
) -> Lookup:
    wire.milliseconds("visible_after_ms", visible_after_ms)
    if works_for_ms is not None:
        wire.milliseconds("works_for_ms", works_for_ms)
    if absences_required is not None and absences_required < 1:
        raise ValueError("absences_required is at least 1; leave it out where finding nothing proves nothing")
    return Lookup(function, visible_after_ms, works_for_ms, absences_required)


def served(reply: Reply, lookups: Mapping[str, Lookup], limit: int) -> list[tuple[Due, Lookup]]:
    """Of what is due, what this client can look for, the longest due first. Raises `Refused`."""
    listed = reply.body.get("lookups")
    if not isinstance(listed, list):
        raise refusal(reply)
    due = [Due.read(raw) for raw in listed]
    return [(one, lookups[one.tool]) for one in due if one.tool in lookups][:limit]


def report(due: Due, looked: Looked, asked_ms: float, now_ms: float) -> Request:
    """`asked_ms` is from before the lookup was called: what became visible while it ran, it may have missed."""
    is_cut = isinstance(looked, Cut)
    found = looked.found if isinstance(looked, Cut) else looked
    several = [] if found is ABSENT else [found] if isinstance(found, Found) else found
    if not isinstance(several, list) or not all(isinstance(one, Found) for one in several):
        raise TypeError("a lookup returns Found, a list of Found, ABSENT, or Cut of these; anything else says nothing")
    # More than one is a disagreement already, so the rest adds nothing to it.
    members = {
        "found": [one.report() for one in several[: limits.FOUND_MAX]],
        "asked_ago_ms": max(0, ceil(now_ms - asked_ms)),
        "completeness": "cut" if is_cut else "whole",
    }
    return wire.lookup_report(due.operation_id, members)


def was_recorded(due: Due, reply: Reply) -> bool:
    if "lookup" in reply.body:
        return True
    LOG.warning("what was found of operation %s was not recorded: %s", due.operation_id, refusal(reply))
    return False


def says_nothing(due: Due) -> None:
    """A lookup that raised has no answer, which is not the answer that nothing is there. It is asked again later."""
    LOG.exception("the lookup of operation %s (%s) raised; nothing is reported", due.operation_id, due.tool)


def goes_on_after(error: GatewayUnreachable | Refused) -> None:
    """A pass that came to nothing is followed by the next one, unless that would be refused as well."""
    if isinstance(error, Refused) and error.repeat == "never":
        raise error
    LOG.warning("due lookups: %s", error)
