"""Seeded hostile values: random JSON, and mutations of valid messages."""

import json
import random
from typing import Any

SCALARS = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**53,
        1e308,
        -0.0,
        "",
        "p:q",
        "p:m",
        "p:a",
        "x",
        "\ud800",
        "\0",
        "💥",
        "_storage",
    ),
    *({"$integer": "x"}, {"$integer": "AAAAAAAAAAA="}, {"$bytes": 5}, {"$float": "AAAAAAAAAAA="}, {"$x": 1}),
    *([], {}, "a" * 5000, "AAAAAAAAAAA=", "../../etc/passwd", "_system/frontend/listTables", "__proto__"),
]
NAMES = [
    *(
        "path",
        "args",
        "format",
        "adminKey",
        "code",
        "type",
        "queryId",
        "requestId",
        "udfPath",
        "baseVersion",
        "newVersion",
    ),
    *(
        "modifications",
        "value",
        "tokenType",
        "sessionId",
        "componentPath",
        "journal",
        "appDefinition",
        "functions",
        "schema",
    ),
    *("schemaChange", "changes", "name", "__proto__", "constructor", "toString", "length", "$integer"),
]


class Inputs:
    """All choices come from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        kind = self.chance.random()
        if depth < 4 and kind < 0.25:
            return {self.chance.choice(NAMES): self.value(depth + 1) for _ in range(self.chance.randrange(4))}
        if depth < 4 and kind < 0.4:
            return [self.value(depth + 1) for _ in range(self.chance.randrange(4))]
        return self.chance.choice(SCALARS)

    def mutated(self, message: Any, depth: int = 0) -> Any:
        """The same message with some of its parts replaced, removed or added."""
        if self.chance.random() < 0.06 * (depth > 0):
            return self.value()
        if isinstance(message, dict):
            changed = {k: self.mutated(v, depth + 1) for k, v in message.items() if self.chance.random() > 0.04}
            if self.chance.random() < 0.08:
                changed[self.chance.choice(NAMES)] = self.value()
            return changed
        if isinstance(message, list):
            changed = [self.mutated(item, depth + 1) for item in message]
            return changed * 2 if self.chance.random() < 0.03 else changed
        return message

    def damaged(self, data: bytes) -> bytes:
        """Bytes cut, flipped, doubled or nested deeply; often left alone."""
        kind = self.chance.random()
        if kind < 0.08:
            return data[: self.chance.randrange(len(data) + 1)]
        if kind < 0.16 and data:
            flipped = bytearray(data)
            for _ in range(1 + self.chance.randrange(8)):
                flipped[self.chance.randrange(len(flipped))] = self.chance.randrange(256)
            return bytes(flipped)
        if kind < 0.19:
            return self.chance.randbytes(self.chance.randrange(300))
        if kind < 0.21:
            return b"[" * 50_000
        return data

    def text(self, message: Any) -> bytes:
        return self.damaged(json.dumps(message).encode())
