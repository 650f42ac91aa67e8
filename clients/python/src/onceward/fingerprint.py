"""The fingerprint of a call, byte for byte as docs/fingerprint.md lays it out.

Nothing but the standard library: this file can be taken alone. The published vectors (crates/onceward-core/vectors) are
what it is held to. Nobody needs it to use Onceward, since the gateway makes the fingerprint; it is for whoever keys
something of their own by an intention, as `OperationIds` does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from typing import Any

DOMAIN = b"onceward fingerprint v1\0"
BYTES_MAX = 1024 * 1024
DEPTH_MAX = 64
NUMBER_MAX = 2**53 - 1
PLACE_BYTES_MAX = 512
POINTERS_MAX = 32
KEY_BYTES_MIN, KEY_BYTES_MAX = 32, 64

Path = tuple[str | int, ...]
"""The steps from the root of a document to a value in it."""


class InvalidJson(ValueError):
    """A document that two readers could understand differently. Nothing was sent and no operation exists.

    `code` is one of docs/fingerprint.md, `place` a JSON Pointer to the field. No value is ever repeated.
    """

    def __init__(self, code: str, place: str, way_out: str) -> None:
        super().__init__(code, place, way_out)
        self.code = code
        self.place = place
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.code} at {self.place or 'the document itself'}: {self.way_out}"


def fingerprint(
    tool: str,
    tool_version: str,
    arguments: Any,
    *,
    key: bytes | None = None,
    free_text: Iterable[str] = (),
    volatile: Iterable[str] = (),
) -> str:
    """64 lower-case hex digits, equal for two calls that ask for the same thing.

    `arguments` are a text (`str` or `bytes`), read strictly, or a value that is parsed already. `key` is a fingerprint
    key of 32 to 64 bytes. The fields that `free_text` and `volatile` point to are not compared.

    Raises `InvalidJson`, and `ValueError` for a key or pointers that break the rules.
    """
    if key is not None and not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"a fingerprint key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, and this one has {len(key)}")
    pointers = _pointers([*free_text, *volatile])
    compared = canonical(arguments)
    if pointers:
        left = json.loads(compared)
        for pointer in pointers:
            _take_out(left, pointer)
        compared = canonical(left)
    data = DOMAIN + b"".join(_part(text) for text in (tool, tool_version, compared))
    return hashlib.sha256(data).hexdigest() if key is None else hmac.digest(key, data, "sha256").hex()


def canonical(arguments: Any) -> str:
    """The one text of a document (RFC 8785): of a text (`str` or `bytes`), read strictly, or of a parsed value.

    Parsed values are `dict` with `str` keys, `list`, `str`, `int`, `float`, `bool` and `None`. Others are refused
    although JSON could be made of them: a tuple is written as `list(…)`, a key as `str(…)`, by whoever knows what was
    meant.

    Raises `InvalidJson`.
    """
    value = _read(arguments) if isinstance(arguments, (str, bytes)) else arguments
    text = _written(value, ())
    if len(text) > BYTES_MAX or len(text.encode()) > BYTES_MAX:
        raise _too_large()
    return text


def _part(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(8, "big") + encoded


def _refused(code: str, path: Path, way_out: str) -> InvalidJson:
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    # A longer place is named by the nearest field around it.
    while len("".join(steps).encode("utf-8", "surrogatepass")) + len(steps) > PLACE_BYTES_MAX:
        steps.pop()
    return InvalidJson(code, "".join(f"/{step}" for step in steps), way_out)


def _too_large() -> InvalidJson:
    return _refused(
        "too_large", (), f"at most {BYTES_MAX} bytes, as sent and in canonical form; send a reference to the content"
    )


def _too_deep(path: Path) -> InvalidJson:
    return _refused("too_deep", path, f"at most {DEPTH_MAX} arrays and objects inside each other; flatten it")


def _out_of_range(path: Path) -> InvalidJson:
    return _refused(
        "number_out_of_range", path, f"beyond ±{NUMBER_MAX} different numbers become equal; send it as a string"
    )


def _lone_surrogate(path: Path) -> InvalidJson:
    return _refused("lone_surrogate", path, "half of a surrogate pair is no character; send the pair, or leave it out")


# Writing: the canonical text of a value.


def _written(value: Any, path: Path) -> str:
    if isinstance(value, str):
        return _string(value, path)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -NUMBER_MAX <= value <= NUMBER_MAX:
            raise _out_of_range(path)
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value, path)
    if isinstance(value, dict):
        return _object(value, path)
    if isinstance(value, list):
        if len(path) >= DEPTH_MAX:
            raise _too_deep(path)
        return "[" + ",".join([_written(one, (*path, at)) for at, one in enumerate(value)]) + "]"
    way_out = (
        "pass list(…) of it"
        if isinstance(value, tuple)
        else "pass what it stands for as dict, list, str, number, bool or None"
    )
    raise _refused("not_json", path, f"a {type(value).__name__} is no JSON; {way_out}")


def _object(value: dict[Any, Any], path: Path) -> str:
    if len(path) >= DEPTH_MAX:
        raise _too_deep(path)
    for key in value:
        if not isinstance(key, str):
            raise _refused(
                "not_json", path, f"a key is a {type(key).__name__}; keys of JSON are texts, pass str(…) of it"
            )
    # By UTF-16 code units, as JavaScript sorts: beyond ASCII neither code points nor bytes have that order.
    if all(key.isascii() for key in value):
        keys = sorted(value)
    else:
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join([f"{_string(key, path)}:{_written(value[key], (*path, key))}" for key in keys]) + "}"


def _string(text: str, path: Path) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _lone_surrogate(path) from None
    return json.dumps(str(text), ensure_ascii=False)


def _float(value: float, path: Path) -> str:
    """As JavaScript writes it: the shortest digits that are read back the same, laid out by its rules."""
    if value != value or value in (float("inf"), float("-inf")):
        raise _refused("not_json", path, "NaN and Infinity are no JSON; send a string, or leave it out")
    if abs(value) > NUMBER_MAX:
        raise _out_of_range(path)
    if value.is_integer():
        return str(int(value))
    sign = "-" if value < 0 else ""
    # repr has the shortest digits, too; only where it puts the point differs.
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if point > 0:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if point > -6:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e-{1 - point}"


# Reading: a text that nobody has parsed yet.

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_UNIT = re.compile(r"[0-9a-fA-F]{4}")
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _read(document: str | bytes) -> Any:
    encoded = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document
    if len(encoded) > BYTES_MAX:
        raise _too_large()
    if isinstance(document, str):
        return _Reader(document).document()
    try:
        text = document.decode()
    except UnicodeDecodeError as error:
        # What stands before the byte is read first: a mistake there is the first mistake.
        reader = _Reader(document[: error.start].decode())
        try:
            reader.document()
        except InvalidJson:
            if reader.at < len(reader.text):
                raise
        raise _refused("not_utf8", tuple(reader.path), "encode the text as UTF-8") from None
    return _Reader(text).document()


class _Reader:
    """Reads strict JSON, and knows at every character which field it is in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.path: list[str | int] = []

    def document(self) -> Any:
        value = self._value()
        self._space()
        if self.at < len(self.text):
            raise _refused("trailing_bytes", (), "send one document and nothing after it")
        return value

    def _not_json(self) -> InvalidJson:
        return _refused(
            "not_json", tuple(self.path), "correct the text (NaN, comments and trailing commas are not JSON)"
        )

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _next(self) -> str:
        """The next character that is no white space, which stays; empty at the end."""
        self._space()
        return self.text[self.at : self.at + 1]

    def _expect(self, wanted: str) -> None:
        for character in wanted:
            if self.text[self.at : self.at + 1] != character:
                raise self._not_json()
            self.at += 1

    def _value(self) -> Any:
        first = self._next()
        if first == '"':
            return self._string()
        if first in ("{", "["):
            if len(self.path) >= DEPTH_MAX:
                raise _too_deep(tuple(self.path))
            self.at += 1
            return self._members() if first == "{" else self._elements()
        if first in _LITERALS:
            text, value = _LITERALS[first]
            self._expect(text)
            return value
        return self._number()

    def _members(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self._next() == "}":
            self.at += 1
            return members
        while True:
            if self._next() != '"':
                raise self._not_json()
            key = self._string()
            self.path.append(key)
            if key in members:
                raise _refused(
                    "duplicate_key", tuple(self.path), "the key is given twice in one object; keep one of the two"
                )
            self._space()
            self._expect(":")
            members[key] = self._value()
            self.path.pop()
            if self._next() == "}":
                self.at += 1
                return members
            self._expect(",")

    def _elements(self) -> list[Any]:
        elements: list[Any] = []
        while True:
            self.path.append(len(elements))
            if self._next() == "]":
                self.at += 1
                self.path.pop()
                return elements
            if elements:
                self._expect(",")
            elements.append(self._value())
            self.path.pop()

    def _string(self) -> str:
        self.at += 1
        pieces: list[str] = []
        while True:
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                pieces.append(plain.group())
                self.at = plain.end()
            match self.text[self.at : self.at + 1]:
                case '"':
                    self.at += 1
                    return "".join(pieces)
                case "\\":
                    self.at += 1
                    pieces.append(self._escape())
                case _:
                    raise self._not_json()

    def _escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        if letter in _ESCAPES:
            self.at += 1
            return _ESCAPES[letter]
        self._expect("u")
        unit = self._unit()
        if not 0xD800 <= unit <= 0xDFFF:
            return chr(unit)
        if unit > 0xDBFF or not self.text.startswith("\\u", self.at):
            raise _lone_surrogate(tuple(self.path))
        self.at += 2
        low = self._unit()
        if not 0xDC00 <= low <= 0xDFFF:
            raise _lone_surrogate(tuple(self.path))
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))

    def _unit(self) -> int:
        found = _UNIT.match(self.text, self.at)
        if not found:
            raise self._not_json()
        self.at = found.end()
        return int(found.group(), 16)

    def _number(self) -> float:
        found = _NUMBER.match(self.text, self.at)
        if not found:
            raise self._not_json()
        # `01` and `1.` match up to their mistake.
        rest = self.text[found.end() : found.end() + 1]
        if rest and rest in "0123456789.eE":
            self.at = found.end()
            raise self._not_json()
        number = float(found.group())
        if abs(number) > NUMBER_MAX:
            raise _out_of_range(tuple(self.path))
        self.at = found.end()
        return number


# Fields that are not compared.


def _pointers(texts: list[str]) -> list[list[str]]:
    if len(texts) > POINTERS_MAX:
        raise ValueError(f"at most {POINTERS_MAX} fields are left out; name the object around them")
    pointers = [_pointer(text) for text in texts]
    for at, one in enumerate(pointers):
        if any(other[: len(one)] == one for place, other in enumerate(pointers) if place != at):
            raise ValueError(f"{texts[at]} is given twice, or another field is inside it; keep the outer one")
    return pointers


def _pointer(text: str) -> list[str]:
    if not text.startswith("/") or len(text.encode()) > PLACE_BYTES_MAX or re.search("~(?![01])", text):
        raise ValueError(
            f"{text!r} is no JSON Pointer to a field: `/a/b`, at most {PLACE_BYTES_MAX} bytes, `~` as `~0`, `/` as `~1`"
        )
    steps = [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]
    if len(steps) > DEPTH_MAX:
        raise ValueError(f"a JSON Pointer has at most {DEPTH_MAX} steps")
    return steps


def _take_out(document: Any, pointer: list[str]) -> None:
    """A member leaves its object; an element becomes `null`, so that its neighbours keep their places."""
    *around, last = pointer
    at = document
    for step in around:
        if isinstance(at, dict) and step in at:
            at = at[step]
        elif isinstance(at, list) and (index := _index(step, at)) is not None:
            at = at[index]
        else:
            return
    if isinstance(at, dict):
        at.pop(last, None)
    elif isinstance(at, list) and (index := _index(last, at)) is not None:
        at[index] = None


def _index(step: str, elements: list[Any]) -> int | None:
    if re.fullmatch("0|[1-9][0-9]{0,8}", step) and int(step) < len(elements):
        return int(step)
    return None
