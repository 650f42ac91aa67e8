"""The fingerprint of docs/fingerprint.md, for a service that calls onceward.begin_operation with a key.

Nothing but the standard library: this file can be taken as it is. It holds to the published vectors of tools that compare every
field; `check` runs them.
"""

import hashlib
import hmac
import json
import re

DOMAIN = b"onceward fingerprint v1\0"
BYTES_MAX = 1024 * 1024
DEPTH_MAX = 64
NUMBER_MAX = 2**53 - 1


class Refused(ValueError):
    """Arguments that two readers could understand differently. The first word is the code."""


def parse(text: str):
    """Reads JSON strictly."""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        raise Refused("too_large")

    def members(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Refused("duplicate_key")
        return found

    def constant(name):
        raise Refused(f"not_json {name}")

    try:
        return json.loads(text, object_pairs_hook=members, parse_int=float, parse_constant=constant)
    except RecursionError as error:
        raise Refused("too_deep") from error
    except json.JSONDecodeError as error:
        raise Refused("trailing_bytes" if error.msg == "Extra data" else "not_json") from error


def canonical(value, depth: int = 1) -> str:
    """RFC 8785."""
    if isinstance(value, (dict, list)) and depth > DEPTH_MAX:
        raise Refused("too_deep")
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{string(key)}:{canonical(value[key], depth + 1)}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(one, depth + 1) for one in value) + "]"
    if isinstance(value, str):
        return string(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return number(float(value))


def string(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused("lone_surrogate") from error
    return json.dumps(text, ensure_ascii=False)


def number(value: float) -> str:
    """As JavaScript writes it: the shortest digits, laid out by its rules."""
    if value != value or abs(value) > NUMBER_MAX:
        raise Refused("number_out_of_range")
    if value == 0:
        return "0"
    whole, fraction, exponent = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:e([+-]\d+))?", repr(abs(value))).groups()
    digits = whole + (fraction or "")
    point = len(whole) + int(exponent or 0) - (len(digits) - len(digits.lstrip("0")))
    digits = digits.strip("0")
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def fingerprint(tool: str, tool_version: str, arguments, key: bytes | None = None) -> bytes:
    """32 bytes. `arguments` are a text, which is read strictly, or an object that is parsed already."""
    value = parse(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(value, dict):
        raise Refused("not_an_object")
    data = DOMAIN
    for text in (tool, tool_version, canonical(value)):
        encoded = text.encode("utf-8")
        data += len(encoded).to_bytes(8, "big") + encoded
    return hmac.digest(key, data, "sha256") if key else hashlib.sha256(data).digest()


def check(vectors: dict) -> int:
    """How many of the published vectors it holds to; raises at the first that it does not."""
    held = 0
    for vector in vectors["vectors"]:
        value = parse(vector["arguments"])
        if vector["free_text"] or vector["volatile"] or not isinstance(value, dict):
            continue
        key = bytes.fromhex(vector["key"]) if vector["key"] else None
        assert canonical(value) == vector["canonical"], vector["name"]
        made = fingerprint(vector["tool"], vector["tool_version"], vector["arguments"], key)
        assert made.hex() == vector["fingerprint"], vector["name"]
        held += 1
    return held
