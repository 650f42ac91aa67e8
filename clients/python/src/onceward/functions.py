"""Own functions: a function of the application that runs under an operation id.

`Described` is what is known of one before it is called, and what the clients that block and await share.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from . import _claims as claims
from . import _ends as ends
from . import _limits as limits
from . import _wire as wire
from . import lookups, schema
from ._claims import Asked, Grant
from ._ends import End
from ._link import Link
from .attempt import RUNNING, NotSent
from .envelope import Envelope
from .heartbeat import Heartbeats

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[[lookups.Due], Any])

_OURS = ("operation", "wait_ms")


@dataclass(frozen=True)
class Options:
    """What `@client.operation(…)` says."""

    tool: str
    title: str | None = None
    settle_within_ms: int = 60_000
    wait_ms: int = 30_000
    not_sent: tuple[type[BaseException], ...] = ()
    effect_id: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        wire.milliseconds("settle_within_ms", self.settle_within_ms, least=1, most=limits.SETTLE_WITHIN_MAX_MS)
        wire.milliseconds("wait_ms", self.wait_ms)


class Described(Generic[P, R]):
    """An own function as it was written, with what its operations are claimed under.

    Raises `TypeError` for a function whose arguments cannot be kept by name.
    """

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        update_wrapper(cast(Any, self), function)
        self._options = options
        self._lookup: lookups.Lookup | None = None
        self._signature = inspect.signature(function)
        self.function = function
        """The original, which runs without any operation."""
        _check(function, self._signature, options)

    @property
    def tool(self) -> str:
        return self._options.tool

    @property
    def definition(self) -> dict[str, Any]:
        """`name`, `description` and `input_schema` for a model. Needs `onceward[schema]`."""
        return schema.definition(self.tool, self.function)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name as the operation has them: with the defaults of those that were left out. What is keyed
        by them is the same whether a model writes a default out or not. Raises `TypeError`.
        """
        bound = self._signature.bind(**arguments)
        bound.apply_defaults()
        return dict(bound.arguments)

    def lookup(
        self, *, visible_after_ms: int, works_for_ms: int | None = None, absences_required: int | None = None
    ) -> Callable[[F], F]:
        """Says how the effect of a lost run is looked for. The function is given a `Due` and returns what it found.

        `visible_after_ms`: how long after the effect an answer may still miss it. `works_for_ms`: how long after its
        claim a run may still have its effect. `absences_required`: how many answers without it, after both, prove that
        there is none and free the operation. Without the last two, finding nothing never does.
        """

        def register(function: F) -> F:
            self._lookup = lookups.lookup(function, visible_after_ms, works_for_ms, absences_required)
            return function

        return register

    def _asked(self, operation: object, wait_ms: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked:
        """The call, checked. Raises `TypeError`, `ValueError` and `InvalidJson`: nothing was sent and nothing ran."""
        if operation is None:
            name = getattr(self.function, "__name__", self.tool)
            raise TypeError(
                f"{name}() runs under an operation id: {name}(…, operation=stored_id) or {name}.under(stored_id)(…). "
                "new_operation_id() makes one; store it where the intention is made, before the call, and use it for "
                "every repetition"
            )
        options = self._options
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        members: dict[str, Any] = {"tool": options.tool, "settle_within_ms": options.settle_within_ms}
        text = wire.arguments_text(arguments)
        if options.title is not None:
            members["title"] = options.title.format_map(arguments)
        if self._lookup is not None:
            members["lookup"] = self._lookup.figures()
        wait_ms = options.wait_ms if wait_ms is None else wire.milliseconds("wait_ms", wait_ms)
        return Asked(wire.operation_id(operation), text, members, options.settle_within_ms, wait_ms)

    def _end_of_value(self, value: Any) -> End:
        return ends.of_value(value, self._options.encode, self._options.effect_id)

    def _end_of_error(self, error: BaseException) -> End:
        return ends.of_error(error, self._options.not_sent)

    def _decoded(self, content: Any) -> R:
        decode = self._options.decode
        value: R = content if decode is None else decode(content)
        return value


TOO_OLD = NotSent("the claim was answered too late for the function to begin; it did not run")


class OwnFunction(Described[P, R]):
    """An own function of a client that blocks. Calling it claims, runs and settles; a repetition gets the first run's
    value.
    """

    def __init__(self, function: Callable[P, R], options: Options, link: Link, beats: Heartbeats) -> None:
        super().__init__(function, options)
        self._link = link
        self._beats = beats

    def __call__(self, *args: Any, operation: str | None = None, wait_ms: int | None = None, **kwargs: Any) -> R:
        """Runs it, unless it has been run under this id; then what it returned is returned again.

        Raises `OperationError` (of which `OperationUnknown` says that nobody knows whether it ran), `Refused`,
        `GatewayUnreachable`, `SettlementNotRecorded`, `ReceiptNotKept`; and `InvalidJson` before anything is claimed.
        """
        asked = self._asked(operation, wait_ms, args, kwargs)
        granted = self._link.carry_out(claims.claim(asked))
        if isinstance(granted, Envelope):
            return self._decoded(ends.content(granted))
        end, envelope = self._link.carry_out(claims.settle(granted, self._run(granted, args, kwargs)))
        return self._decoded(ends.conclude(end, envelope))

    def under(self, operation: str, *, wait_ms: int | None = None) -> Callable[P, R]:
        """The same call with the function's own types."""

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return self(*args, operation=operation, wait_ms=wait_ms, **kwargs)

        return call

    def _run(self, grant: Grant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> End:
        if grant.is_too_old:
            return self._end_of_error(TOO_OLD)
        running = RUNNING.set(grant.attempt)
        try:
            with self._beats.during(grant):
                value = self.function(*args, **kwargs)
        except BaseException as error:
            return self._end_of_error(error)
        finally:
            RUNNING.reset(running)
        return self._end_of_value(value)


@dataclass
class Registry:
    """The own functions of one client, by tool."""

    functions: dict[str, Described[Any, Any]] = field(default_factory=dict)

    def add(self, function: Described[Any, Any]) -> None:
        if function.tool in self.functions:
            raise ValueError(f"this client has a function {function.tool!r} already; a tool's name is one function's")
        self.functions[function.tool] = function

    def lookups(self) -> dict[str, lookups.Lookup]:
        return {tool: one._lookup for tool, one in self.functions.items() if one._lookup is not None}


def _check(function: Callable[..., Any], signature: inspect.Signature, options: Options) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("a generator has not run when it returns; write a function that returns when it is done")
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(
                f"{parameter}: the arguments of an operation are kept by name; name each one, or take a list or a dict"
            )
        if parameter.name in _OURS:
            raise TypeError(f"a parameter {parameter.name!r} would hide the one of the call; rename it")
    for _, name, _, _ in string.Formatter().parse(options.title or ""):
        if name is not None and name.split(".")[0].split("[")[0] not in signature.parameters:
            raise TypeError(f"the title names {{{name}}}, which is no parameter of the function")
