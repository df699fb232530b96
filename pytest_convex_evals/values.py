"""Convex values in Python, and their JSON form.

Numbers are float64 on Convex; a whole one arrives as `int`, which compares equal. Int64 values are `Int64`, an `int`
that stays what it is on the way back.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Value = Any
"""None, bool, int, float, Int64, str, bytes, list, or dict with text keys."""

_MIN, _MAX = -(2**63), 2**63 - 1


class Int64(int):
    """A Convex int64 (`v.int64()`, a bigint in TypeScript)."""

    def __new__(cls, value: int) -> Int64:
        """Refuse what does not fit."""
        if not _MIN <= value <= _MAX:
            raise ValueError(f"{value} does not fit into an int64")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Int64({int(self)})"


def encode(value: Value) -> Any:
    """The JSON form of a value."""
    kind = type(value)
    # Most values are of these exact kinds; asking for kinds of kinds takes many times as long.
    if value is None or kind is str or kind is bool:
        return value
    if kind is int or kind is float:
        return _number(float(value))
    if kind is dict:
        return {_key(key): encode(item) for key, item in value.items()}
    if isinstance(value, str):
        return value
    if isinstance(value, Int64):
        return {"$integer": base64.b64encode(struct.pack("<q", value)).decode()}
    if isinstance(value, int):
        return _number(float(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {_key(key): encode(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [encode(item) for item in value]
    raise TypeError(f"{value!r} is not a Convex value")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} of an object is not a text")
    return key


def _number(value: float) -> Any:
    if math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return {"$float": base64.b64encode(struct.pack("<d", value)).decode()}


def decode(value: Any) -> Value:
    """The value of a JSON form."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, text), *_ = value.items()
        if tag == "$integer":
            return Int64(struct.unpack("<q", base64.b64decode(text))[0])
        if tag == "$float":
            return struct.unpack("<d", base64.b64decode(text))[0]
        if tag == "$bytes":
            return base64.b64decode(text)
    return {key: decode(item) for key, item in value.items()}
