"""From a model's answer to files.

The asked-for form is an h1 `Files`, then an h2 path and a fenced block per file. Variants that mean the
same are accepted: a path in backticks, bold or quotes, another heading level, other capitalisation, a
colon or `File:` around the path, tilde fences, longer fences around code that contains fences, a last
fence that is never closed, a path on a line of its own instead of a heading, or no `Files` heading at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$")
_ONLY_A_PATH = re.compile(r"^ {0,3}(?:[-*+] +)?(\*\*.+?\*\*|__.+?__|`[^`]+`|\*\*`[^`]+`\*\*):?$")
_PREFIX = re.compile(r"^(?:file(?:name|path)?|path)\s*:\s*", re.IGNORECASE)
_NUMBER = re.compile(r"^\d+[.)]\s+")
_COMMENT = re.compile(r"\s+(?:\([^()]*\)|[-–—]\s.*)$")
_PATH = re.compile(r"^[^\s<>|\"*?]*[./\\][^\s<>|\"*?]*[^\s<>|\"*?/\\.:,]$")
_DECORATED = re.compile(r"^(\*{1,3}|__|[`'\"])(.+)\1$")
_MARKDOWN = {"md", "mdx", "markdown"}


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The files of an answer, in their order, and what was overlooked."""

    files: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    text: str


@dataclass(frozen=True, slots=True)
class _Block:
    content: str
    closed: bool


def parse_answer(text: str) -> ParsedAnswer:
    """The files of the answer; an answer without any gives an empty mapping."""
    events = list(_events(text.removeprefix("\ufeff").split("\n")))
    starts = [i for i, event in enumerate(events) if isinstance(event, _Heading) and _is_files(event.text)]
    for start in [*starts, -1]:
        parsed = _collect(events[start + 1 :])
        if parsed.files:
            return parsed
    return ParsedAnswer({}, ())


def _collect(events: list[_Heading | _Block]) -> ParsedAnswer:
    files: dict[str, str] = {}
    notes: list[str] = []
    path: str | None = None
    for event in events:
        if isinstance(event, _Heading):
            path = _path_in(event.text)
        elif path is not None:
            if path in files:
                notes.append(f"{path} stands twice in the answer; the last one counts")
            if not event.closed:
                notes.append(f"the block of {path} is not closed")
            files[path] = event.content
            path = None
    return ParsedAnswer(files, tuple(notes))


def _events(lines: list[str]) -> Iterator[_Heading | _Block]:
    position = 0
    while position < len(lines):
        line = lines[position].rstrip("\r")
        position += 1
        fence = _FENCE.match(line)
        if fence:
            block, position = _read_block(lines, position, fence)
            yield block
        elif heading := _HEADING.match(line) or _ONLY_A_PATH.match(line):
            yield _Heading(heading[heading.re.groups])


def _read_block(lines: list[str], position: int, fence: re.Match[str]) -> tuple[_Block, int]:
    indent, marks, info = len(fence[1]), fence[2], fence[3].strip().lower()
    nests = info.partition(" ")[0] in _MARKDOWN
    depth, content = 1, list[str]()
    while position < len(lines):
        line = lines[position]
        position += 1
        inner = _FENCE.match(line.rstrip("\r"))
        if inner and inner[2][0] == marks[0] and len(inner[2]) >= len(marks):
            if not inner[3].strip():
                depth -= 1
            elif nests:
                depth += 1
            if depth == 0:
                return _Block(_join(content, indent), closed=True), position
        content.append(line)
    return _Block(_join(content, indent), closed=False), position


def _join(lines: list[str], indent: int) -> str:
    if indent:
        lines = [re.sub(rf"^ {{0,{indent}}}", "", line) for line in lines]
    return "".join(f"{line}\n" for line in lines)


def _undecorated(text: str) -> str:
    text = text.strip()
    while True:
        decorated = _DECORATED.match(text)
        bare = decorated[2].strip() if decorated else text
        bare = _NUMBER.sub("", _PREFIX.sub("", bare.removesuffix(":").strip()))
        if bare == text:
            return text
        text = bare


def _is_files(text: str) -> bool:
    return _undecorated(text).casefold() in {"files", "file", "project files", "all files"}


def _path_in(text: str) -> str | None:
    """The path that a heading names; None when it names none."""
    for candidate in (_undecorated(text), _undecorated(_COMMENT.sub("", text))):
        path = candidate.removeprefix("./")
        if _PATH.match(path):
            return path
    quoted = re.search(r"`([^`]+)`", text)
    path = quoted[1].strip().removeprefix("./") if quoted else ""
    return path if _PATH.match(path.replace(" ", "_")) else None


def render_files(files: Mapping[str, str]) -> str:
    """Files in the asked-for form; `parse_answer` is the way back."""
    parts = ["# Files\n"]
    for path, content in files.items():
        longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
        fence = "`" * (longest + 1)
        body = content if not content or content.endswith("\n") else f"{content}\n"
        parts.append(f"\n## {path}\n\n{fence}\n{body}{fence}\n")
    return "".join(parts)
