"""What a submission's sources say, for graders: read by the toolchain worker, never by searching text.

    def test_the_rank_comes_from_the_index(sources):
        assert sources.installed("@convex-dev/aggregate")
        assert sources.functions["board:rank"].kind == "query"
        assert sources.calls(package="@convex-dev/aggregate", method="count", returned_by="board:rank")

A `Call` is one place that uses something from outside the submission, with the values it is given there.
Names are resolved first: aliases, re-exports, helpers in other files, instances, constants. The same place
counts once for each different set of values it is reached with. Arguments are plain Python values where they
are constant, else `Origin`, `FunctionRef`, `OneOf` or `Unknown`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

Names: TypeAlias = "str | Collection[str] | None"
T = TypeVar("T")


class Undefined:
    """JavaScript's undefined."""

    def __repr__(self) -> str:
        return "undefined"

    def __bool__(self) -> bool:
        return False


UNDEFINED = Undefined()


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A Convex function that is named rather than called: `internal.jobs.run` is `jobs:run`."""

    path: str

    def __repr__(self) -> str:
        return f"<function {self.path}>"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only running the code would tell."""

    text: str
    """The source text, shortened."""
    origins: tuple[str, ...] = ()
    """What went into it: `args.user`, `ctx.auth.getUserIdentity()`, `some-package:name`."""

    def __repr__(self) -> str:
        return f"<{self.text or 'unknown'}>"


@dataclass(frozen=True, slots=True)
class Origin:
    """A value that comes from an import, from ctx, from the arguments of a Convex function, or is global."""

    source: Literal["package", "generated", "ctx", "args", "global"]
    """What kind of place it comes from; `generated` is Convex's `_generated/` folder."""
    module: str
    package: str
    export: str
    instance: bool
    """Whether it was reached through `new export(…)`."""
    member: str
    """The path from there, calls written as `()`: `db.query().collect`; empty for the thing itself."""
    origins: tuple[str, ...] = ()
    """What went into it, arguments of the calls on the way included."""

    def __repr__(self) -> str:
        root = self.source if self.source in ("ctx", "args") else f"{self.module}:{self.export}"
        return f"<{root}{'.' if self.member else ''}{self.member}>"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several values, depending on what happens."""

    options: tuple[Value, ...]

    def __repr__(self) -> str:
        return f"<one of {', '.join(map(repr, self.options))}>"


class PartialDict(dict[str, "Value"]):
    """An object with these keys and perhaps more."""

    def __repr__(self) -> str:
        return f"<{super().__repr__()} and more>"


Value: TypeAlias = (
    "bool | int | float | str | list[Value] | dict[str, Value]"
    " | Undefined | FunctionRef | Unknown | Origin | OneOf | None"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Something that stands in a file."""

    file: str
    line: int

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Placed):
    """Something that is given arguments."""

    args: tuple[Value, ...]

    def arg(self, index: int, *keys: str, default: Value = None) -> Value:
        """The argument at a position, or a part of it; `default` where there is none."""
        value = self.args[index] if index < len(self.args) else default
        for key in keys:
            value = value.get(key, default) if isinstance(value, dict) else default
        return default if value is UNDEFINED else value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Component(Placed):
    """A component that the app installs with `app.use`."""

    package: str
    module: str
    name: str | None
    """The name it is given; None when it keeps its own."""

    def __repr__(self) -> str:
        return f"<component {self.package}{f' as {self.name}' if self.name else ''} at {self.where}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Function(Placed):
    """A Convex function that the submission registers."""

    path: str
    """As Convex writes it: `folder/file:name`."""
    kind: Literal["query", "mutation", "action", "httpAction", "unknown"]
    visibility: Literal["public", "internal", "unknown"]
    wrapped: bool
    """Whether a package wraps the builder, as customFunctions does."""
    args: tuple[str, ...] | None
    """Names of the declared arguments; None when there is no telling."""
    reaches: frozenset[str]
    """Functions it runs, schedules, enqueues or passes on, directly or through others."""
    returns: frozenset[int] = field(repr=False)
    """Numbers of the calls whose results go into what it returns."""

    def __repr__(self) -> str:
        return f"<{self.visibility} {self.kind} {self.path} at {self.where}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Instance(Given):
    """The `new X(…)` behind a method call."""

    module: str
    package: str
    export: str

    def __repr__(self) -> str:
        return f"<new {self.export}({_shown(self.args)}) at {self.where}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Call(Given):
    """One use of something from outside the submission: a call, a `new`, or a mere mention."""

    id: int
    kind: Literal["call", "new", "reference"]
    origin: Origin
    receiver: Instance | None
    """The instance whose method is called."""
    function: str | None
    """Name of the function it stands in; None at module level."""
    reached_from: frozenset[str]
    """Functions, `cron:name` and `http:METHOD path` from which it is really reached; empty for dead code."""
    live: bool
    """Whether a public function, a cron job or a route reaches it."""
    flows: frozenset[str]
    """What its result decides: `condition`, `throw`, `argument` (of another call). See also `returned_by`."""

    @property
    def method(self) -> str:
        """The path from the export: `count`, `db.query().collect`."""
        return self.origin.member

    def __repr__(self) -> str:
        name = repr(self.origin)[1:-1]
        shown = name if self.kind == "reference" else f"{name}({_shown(self.args)})"
        dead = "" if self.live else ", never run"
        return f"<{'new ' if self.kind == 'new' else ''}{shown} at {self.where}{dead}>"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of code."""

    path: str
    readable: bool
    reason: str | None
    """Why it could not be read."""
    errors: tuple[str, ...]
    """Syntax errors as `line: message`."""
    has_functions: bool


class Functions(dict[str, Function]):
    """The Convex functions by path; asking for one that is missing says which there are."""

    def __missing__(self, path: str) -> Function:
        raise LookupError(
            f"there is no Convex function {path}; the submission has: {', '.join(sorted(self)) or 'none'}"
        )

    def __repr__(self) -> str:
        return f"<functions {', '.join(sorted(self)) or 'none'}>"


class Found(tuple[T, ...]):
    """What a search found; when that is nothing, it says what was searched for and what came near."""

    wanted: str
    near: tuple[str, ...]

    def __new__(cls, items: Iterable[T], wanted: str, near: Iterable[str]) -> Found[T]:
        """Remember the search."""
        made = super().__new__(cls, items)
        made.wanted, made.near = wanted, tuple(near)
        return made

    def __repr__(self) -> str:
        only = f"; only {', '.join(self.near[:3])}" if self.near else ""
        return super().__repr__() if self else f"<no {self.wanted}{only}>"


@dataclass(frozen=True)
class Sources:
    """Everything that reading the submission tells."""

    files: Mapping[str, SourceFile]
    functions: Functions
    components: tuple[Component, ...]
    uses: tuple[Call, ...]
    dependencies: Mapping[str, str]
    """Packages of package.json by name, of every kind, with their version ranges."""
    truncated: bool
    """Whether the code was too much to read to the end."""

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Sources:
        """From the answer of the toolchain worker."""
        return cls(
            files={path: _file(path, one) for path, one in facts["files"].items()},
            functions=Functions({one["path"]: _function(one) for one in facts["functions"]}),
            components=tuple(Component(**one) for one in facts["components"]),
            uses=tuple(_call(one) for one in facts["uses"]),
            dependencies=dict(facts["dependencies"]),
            truncated=facts["truncated"],
        )

    def installed(self, package: str) -> Found[Component]:
        """The components of a package that the app installs."""
        found = (one for one in self.components if one.package == package)
        return Found(found, f"component of {package} is installed", (one.package for one in self.components))

    def calls(
        self,
        *,
        package: str | None = None,
        export: Names = None,
        method: Names = None,
        source: str | None = None,
        reachable_from: str | None = None,
        returned_by: str | None = None,
        live: bool | None = None,
        kind: str = "call",
    ) -> Found[Call]:
        """The calls that fit all that is given.

        package, export, method: what is called; method is the path from the export (`count`).
        source: `package`, `ctx`, `global` or `generated`; `ctx` calls have methods like `db.query().collect`.
        reachable_from: a function path, `cron:name` or `http:METHOD path` that must really lead to it.
        returned_by: a function whose return value must be made with the result.
        live: True for code that a public function, a cron job or a route reaches, False for the rest.
        kind: `call`, `new` or `reference`.
        """
        named = [
            one
            for one in self.uses
            if one.kind == kind
            and (package is None or one.origin.package == package)
            and _fits(one.origin.export, export)
            and _fits(one.origin.member, method)
            and (source is None or one.origin.source == source)
        ]
        function = self.functions.get(returned_by or "")
        returned = function.returns if function else frozenset()
        found = (
            one
            for one in named
            if (reachable_from is None or reachable_from in one.reached_from)
            and (returned_by is None or one.id in returned)
            and (live is None or one.live == live)
        )
        near = (f"at {one.where}{'' if one.live else ', never run'}" for one in named)
        what = " ".join(filter(None, (package or source, _words(export), _words(method))))
        how = [
            f" {word} {path}" for word, path in (("reached from", reachable_from), ("returned by", returned_by)) if path
        ]
        return Found(found, f"{kind} of {what}{' and'.join(how)}", near)

    def comes_from(self, value: Value, origin: str) -> bool:
        """Whether something, like `args.user`, went into a value; looks inside lists and objects."""
        if isinstance(value, OneOf | list | dict):
            parts = value.options if isinstance(value, OneOf) else value.values() if isinstance(value, dict) else value
            return any(self.comes_from(one, origin) for one in parts)
        if isinstance(value, Unknown | Origin):
            return any(one == origin or one.startswith((f"{origin}.", f"{origin}(")) for one in value.origins)
        return False

    def possible(self, value: Value) -> tuple[Value, ...]:
        """The values that something may have: several for `OneOf`, else the one."""
        return value.options if isinstance(value, OneOf) else (value,)

    def __repr__(self) -> str:
        return f"<sources: {self.functions!r}, components {list(self.components)!r}>"


def _fits(name: str, wanted: Names) -> bool:
    return wanted is None or name == wanted or (not isinstance(wanted, str) and name in wanted)


def _words(wanted: Names) -> str:
    return wanted if isinstance(wanted, str) else "/".join(sorted(wanted or ()))


def _shown(args: tuple[Value, ...]) -> str:
    text = ", ".join(map(repr, args))
    return text if len(text) <= 120 else f"{text[:119]}…"


def _file(path: str, facts: dict[str, Any]) -> SourceFile:
    errors = tuple(f"{one['line']}: {one['message']}" for one in facts["errors"])
    return SourceFile(path, facts["readable"], facts["reason"], errors, facts["functions"])


def _function(facts: dict[str, Any]) -> Function:
    args = None if facts["args"] is None else tuple(facts["args"])
    sets = {name: frozenset(facts[name]) for name in ("reaches", "returns")}
    return Function(**{**facts, **sets, "args": args})


_ORIGIN = ("source", "module", "package", "export", "instance", "member")


def _call(facts: dict[str, Any]) -> Call:
    rest = {key: value for key, value in facts.items() if key not in _ORIGIN}
    if made := rest["receiver"]:
        rest["receiver"] = Instance(**{**made, "args": tuple(map(_value, made["args"]))})
    rest["args"] = tuple(map(_value, rest["args"]))
    for name in ("reached_from", "flows"):
        rest[name] = frozenset(rest[name])
    return Call(origin=Origin(**{key: facts[key] for key in _ORIGIN}), **rest)


def _value(json: Any) -> Value:
    """A value as the worker writes it: plain JSON, and objects with the key `$` for what is not plain."""
    if isinstance(json, list):
        return [_value(one) for one in json]
    if not isinstance(json, dict) or "$" not in json:
        plain: Value = {key: _value(one) for key, one in json.items()} if isinstance(json, dict) else json
        return plain
    match json["$"]:
        case "function":
            return FunctionRef(json["path"])
        case "oneOf":
            return OneOf(tuple(_value(one) for one in json["options"]))
        case "object":
            entries = {key: _value(one) for key, one in json["entries"]}
            return PartialDict(entries) if json["open"] else entries
        case "origin":
            return Origin(**{key: json[key] for key in _ORIGIN}, origins=tuple(json["from"]))
        case "unknown":
            return Unknown(json["text"], tuple(json["from"]))
        case "bigint":
            return int(json["text"])
        case "number":
            return float(json["text"])
        case _:
            return UNDEFINED
