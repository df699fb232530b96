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

# Answers may be hostile: no pattern here may need more than linear time.
_FENCE = re.compile(r"^( *)(`{3,}(?=[^`]*$)|~{3,})(.*)$", re.DOTALL)
_LIST_MARK = re.compile(r"^ {0,3}(?:[-*+]|\d{1,3}[.)]) {1,3}(?=\S)")
_PREFIX = re.compile(r"^\*{0,2}(?:file(?:name|path)?|path)\s*(?::\*{0,2}|\*{0,2}:)\s*", re.IGNORECASE)
_NUMBER = re.compile(r"^\d+[.)]\s+")
_COMMENT = re.compile(r"(?<!\s)\s+(?:\([^()]*\)|[-–—]\s.*)$")
_NOT_IN_PATHS = re.compile(r"[\s<>|\"*?]")
_DECORATED = re.compile(r"^(\*{1,3}|__|[`'\"])(.+)\1$")
_MARKDOWN = {"md", "mdx", "markdown"}
_MAX_DECORATION = 8
_MAX_HEADING = 4_096


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The files of an answer, in their order, and what was overlooked."""

    files: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    text: str
    path: str | None


@dataclass(frozen=True, slots=True)
class _Block:
    content: str
    closed: bool


def parse_answer(text: str) -> ParsedAnswer:
    """The files of the answer; an answer without any gives an empty mapping."""
    events = list(_events(text.removeprefix("\ufeff").split("\n")))
    headings = (i for i, event in enumerate(events) if isinstance(event, _Heading) and _is_files(event.text))
    start = next(headings, -1)
    return _collect(events[start + 1 :]) or _collect(events) or ParsedAnswer({}, ())


def _collect(events: list[_Heading | _Block]) -> ParsedAnswer | None:
    files: dict[str, str] = {}
    notes: list[str] = []
    path: str | None = None
    for event in events:
        if isinstance(event, _Heading):
            path = event.path
        elif path is not None:
            if path in files:
                notes.append(f"{path} stands twice in the answer; the last one counts")
            if not event.closed:
                notes.append(f"the block of {path} is not closed")
            files[path] = event.content
            path = None
    return ParsedAnswer(files, tuple(notes)) if files else None


def _events(lines: list[str]) -> Iterator[_Heading | _Block]:
    position, path, may_nest = 0, "", True
    while position < len(lines):
        line = lines[position].rstrip("\r")
        position += 1
        fence = _FENCE.match(line)
        if fence:
            markdown = {fence[3].strip().lower().partition(" ")[0], path.rpartition(".")[2].lower()} & _MARKDOWN
            block, after = _read_block(lines, position, fence, nests=bool(markdown) and may_nest)
            if markdown and may_nest and not block.closed:
                # Its inner fences do not pair up, so they say nothing about where it ends; nor will later ones.
                may_nest = False
                block, after = _read_block(lines, position, fence, nests=False)
            position, path = after, ""
            yield block
        elif heading := _heading(line):
            path = heading.path or ""
            yield heading


def _heading(line: str) -> _Heading | None:
    """A heading, or a line that is nothing but a decorated path."""
    bare = line.strip(" \t")
    marks = len(bare) - len(bare.lstrip("#"))
    if 1 <= marks <= 6 and bare[marks : marks + 1] in {" ", "\t"} and not line.startswith("    "):
        text = bare[marks:].strip(" \t")
        unclosed = text.rstrip("#")
        text = unclosed.rstrip(" \t") if unclosed[-1:] in {" ", "\t", ""} else text
        return _Heading(text, _path_in(text))
    if len(bare) <= _MAX_HEADING and bare[:1] in set("*_`-+0123456789fFpP"):
        text = _LIST_MARK.sub("", bare)
        if _DECORATED.match(text.removesuffix(":")) or _PREFIX.match(text):
            path = _path_in(text)
            return _Heading(text, path) if path else None
    return None


def _read_block(lines: list[str], position: int, fence: re.Match[str], *, nests: bool) -> tuple[_Block, int]:
    indent, marks = len(fence[1]), fence[2]
    depth, content = 1, list[str]()
    while position < len(lines):
        line = lines[position]
        position += 1
        inner = _FENCE.match(line.rstrip("\r"))
        if inner and inner[2][0] == marks[0] and len(inner[2]) >= len(marks) and len(inner[1]) <= indent + 3:
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
    for _ in range(_MAX_DECORATION):
        decorated = _DECORATED.match(text)
        bare = decorated[2].strip() if decorated else text
        bare = _NUMBER.sub("", _PREFIX.sub("", bare.removesuffix(":").strip()))
        if bare == text:
            break
        text = bare
    return text


def _is_files(text: str) -> bool:
    return _undecorated(text).casefold() in {"files", "file", "project files", "all files"}


def _path_in(text: str) -> str | None:
    """The path that a heading names; None when it names none."""
    if len(text) > _MAX_HEADING:
        return text if _is_path(text) else None
    for candidate in (_undecorated(text), _undecorated(_COMMENT.sub("", text))):
        path = candidate.removeprefix("./")
        if _is_path(path):
            return path
    quoted = re.search(r"`([^`]+)`", text)
    path = quoted[1].strip().removeprefix("./") if quoted else ""
    return path if _is_path(path.replace(" ", "_")) else None


def _is_path(text: str) -> bool:
    """Something with a dot or a slash in it that does not end like a sentence."""
    named = text[-1:] not in set("/\\.:,")
    return named and not _NOT_IN_PATHS.search(text) and any(mark in text[:-1] for mark in "./\\")


def render_files(files: Mapping[str, str]) -> str:
    """Files in the asked-for form; `parse_answer` is the way back."""
    parts = ["# Files\n"]
    for path, content in files.items():
        longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
        fence = "`" * (longest + 1)
        body = content if not content or content.endswith("\n") else f"{content}\n"
        parts.append(f"\n## {path}\n\n{fence}\n{body}{fence}\n")
    return "".join(parts)
