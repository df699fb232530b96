"""Harmless variants of the asked-for form give the same file; what is not a file gives none."""

import pytest

from pytest_convex_evals.generation.parser import parse_answer

BODY = "export const x = 1;\n"
BLOCK = f"```ts\n{BODY}```\n"

HEADINGS = {
    "as asked for": "## convex/a.ts",
    "in backticks": "## `convex/a.ts`",
    "bold": "## **convex/a.ts**",
    "bold backticks": "## **`convex/a.ts`**",
    "underscores": "## __convex/a.ts__",
    "italic": "## *convex/a.ts*",
    "double quotes": '## "convex/a.ts"',
    "single quotes": "## 'convex/a.ts'",
    "h1": "# convex/a.ts",
    "h3": "### convex/a.ts",
    "h6": "###### convex/a.ts",
    "closing marks": "## convex/a.ts ##",
    "a trailing colon": "## convex/a.ts:",
    "a colon inside bold": "## **convex/a.ts:**",
    "a colon after backticks": "## `convex/a.ts`:",
    "File:": "### File: convex/a.ts",
    "FILE:": "### FILE: `convex/a.ts`",
    "Filename:": "## Filename: convex/a.ts",
    "Path:": "## path: convex/a.ts",
    "bold File:": "## **File:** `convex/a.ts`",
    "numbered": "## 1. convex/a.ts",
    "numbered with a bracket": "## 2) `convex/a.ts`",
    "a comment in brackets": "## convex/a.ts (new)",
    "a comment after a dash": "## convex/a.ts - the functions",
    "a comment after a long dash": "## `convex/a.ts` — the functions",
    "words around a quoted path": "## The file `convex/a.ts` with functions",
    "a leading dot": "## ./convex/a.ts",
    "indented": "  ## convex/a.ts",
    "tabs": "##\tconvex/a.ts\t",
    "a line in bold": "**convex/a.ts**",
    "a line in bold with a colon": "**convex/a.ts**:",
    "a line in backticks": "`convex/a.ts`",
    "a line in bold backticks": "**`convex/a.ts`**",
    "a list entry": "- `convex/a.ts`",
    "a numbered list entry": "1. **convex/a.ts**",
    "a line File:": "File: convex/a.ts",
    "a line bold File:": "**File:** `convex/a.ts`",
    "a line bold File: and path": "**File: convex/a.ts**",
}


@pytest.mark.parametrize("heading", HEADINGS.values(), ids=HEADINGS.keys())
def test_a_path_is_found_however_it_is_written(heading):
    parsed = parse_answer(f"Some words first.\n\n# Files\n\n{heading}\n\n{BLOCK}")
    assert parsed.files == {"convex/a.ts": BODY}
    assert parsed.notes == ()


FILES_HEADINGS = [
    "# Files",
    "# FILES",
    "# files",
    "## Files",
    "### Files:",
    "# **Files**",
    "# Project files",
]


@pytest.mark.parametrize("heading", FILES_HEADINGS)
def test_files_before_the_files_heading_are_examples(heading):
    answer = f"## old/example.ts\n\n```ts\nold\n```\n\n{heading}\n\n## convex/a.ts\n\n{BLOCK}"
    assert parse_answer(answer).files == {"convex/a.ts": BODY}


def test_an_answer_without_the_files_heading_has_its_files():
    assert parse_answer(f"Here you are.\n\n## convex/a.ts\n{BLOCK}\n## convex/b.ts\n{BLOCK}").files == {
        "convex/a.ts": BODY,
        "convex/b.ts": BODY,
    }


def test_a_files_heading_with_nothing_under_it_does_not_hide_the_files_before_it():
    assert parse_answer(f"## convex/a.ts\n{BLOCK}\n# Files\n\nSee above.\n").files == {"convex/a.ts": BODY}


BLOCKS = {
    "tildes": (f"~~~ts\n{BODY}~~~\n", BODY),
    "no language": (f"```\n{BODY}```\n", BODY),
    "a language after a space": (f"``` ts\n{BODY}```\n", BODY),
    "capitals": (f"```TypeScript\n{BODY}```\n", BODY),
    "attributes": (f'```ts title="convex/a.ts"\n{BODY}```\n', BODY),
    "a longer fence": (f"`````ts\n{BODY}`````\n", BODY),
    "a longer closing fence": (f"```ts\n{BODY}`````\n", BODY),
    "fences inside a longer fence": ("````ts\n// ```\n```\n````\n", "// ```\n```\n"),
    "tildes around backticks": ("~~~ts\n```\nx\n```\n~~~\n", "```\nx\n```\n"),
    "spaces after the closing fence": (f"```ts\n{BODY}```  \n", BODY),
    "indented by two": ("  ```ts\n  if (x) {\n    y();\n  }\n  ```\n", "if (x) {\n  y();\n}\n"),
    "indented in a nested list": ("      ```ts\n      x();\n        y();\n      ```\n", "x();\n  y();\n"),
    "less indented than its fence": ("  ```ts\nx();\n  ```\n", "x();\n"),
    "an indented fence in a template string": ("```ts\nconst s = `\n    ```\n`;\n```\n", "const s = `\n    ```\n`;\n"),
    "prose before the fence": (f"This file holds:\n\n- **things**\n- **Note:** more\n\n{BLOCK}", BODY),
    "empty": ("```ts\n```\n", ""),
    "Windows line ends": ("```ts\r\nx();\r\n```\r\n", "x();\r\n"),
}


@pytest.mark.parametrize(("block", "content"), BLOCKS.values(), ids=BLOCKS.keys())
def test_a_block_is_read_however_it_is_fenced(block, content):
    parsed = parse_answer(f"# Files\n\n## convex/a.ts\n\n{block}\n## convex/b.ts\n\n{BLOCK}")
    assert parsed.files == {"convex/a.ts": content, "convex/b.ts": BODY}


README = "# Title\n\n```bash\nnpm install\n```\n\n## Usage\n\n```ts\nx();\n```\n"


@pytest.mark.parametrize("opening", ["```md", "```markdown", "```", "````md"])
def test_a_readme_may_hold_fences_of_the_same_length(opening):
    closing = opening.rstrip("abcdefghijklmnopqrstuvwxyz")
    answer = f"# Files\n\n## README.md\n\n{opening}\n{README}{closing}\n\n## convex/a.ts\n\n{BLOCK}"
    assert parse_answer(answer).files == {"README.md": README, "convex/a.ts": BODY}


def test_a_readme_whose_fences_do_not_pair_up_does_not_swallow_the_files_after_it():
    answer = f"# Files\n\n## README.md\n\n```md\n```bash\nnpm install\n```\n\n## convex/a.ts\n\n{BLOCK}"
    assert parse_answer(answer).files == {"README.md": "```bash\nnpm install\n", "convex/a.ts": BODY}


def test_a_last_fence_that_is_never_closed_ends_with_the_answer():
    parsed = parse_answer("# Files\n\n## convex/a.ts\n\n```ts\nx();\n")
    assert parsed.files == {"convex/a.ts": "x();\n\n"}
    assert parsed.notes == ("the block of convex/a.ts is not closed",)


def test_of_a_file_that_stands_twice_the_last_one_counts():
    parsed = parse_answer(f"# Files\n\n## convex/a.ts\n```\nfirst\n```\n## `./convex/a.ts`\n{BLOCK}")
    assert parsed.files == {"convex/a.ts": BODY}
    assert parsed.notes == ("convex/a.ts stands twice in the answer; the last one counts",)


def test_only_the_first_block_under_a_heading_is_the_file():
    parsed = parse_answer(f"# Files\n\n## convex/a.ts\n{BLOCK}\nRun it:\n\n```bash\nnpx convex dev\n```\n")
    assert parsed.files == {"convex/a.ts": BODY}


HOSTILE = [
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\Windows\\system.ini",
    "c:/windows/system.ini",
    "convex\\a.ts",
    "~/.ssh/authorized_keys",
    "convex/../../x.ts",
    "convex/\0.ts",
    "convex/\x1b[31m.ts",
    "convex/\u202ets.a",
    "convex/\u200b.ts",
    "node_modules/convex/index.js",
    ".env",
    ".npmrc",
    "a/" * 40 + "b.ts",
    "a" * 5_000 + ".ts",
]


@pytest.mark.parametrize("path", HOSTILE, ids=ascii)
def test_hostile_paths_come_out_as_written(path):
    assert parse_answer(f"# Files\n\n## {path}\n\n{BLOCK}").files == {path: BODY}


PROSE = [
    "Overview",
    "How it works",
    "Step 1: Install",
    "1. Install the packages",
    "Notes, e.g. about time.",
    "Why not a component?",
    "Run: npm install",
    "**Done**",
    "Convex functions (queries and mutations)",
    "",
]


@pytest.mark.parametrize("heading", PROSE)
@pytest.mark.parametrize("marks", ["# ", "## ", "### ", ""])
def test_prose_headings_are_not_files(marks, heading):
    assert parse_answer(f"# Files\n\n{marks}{heading}\n\n{BLOCK}").files == {}


@pytest.mark.parametrize(
    "answer",
    ["", "I cannot help with that.", "# Files\n", "# Files\n\n## convex/a.ts\n", f"# Files\n\n{BLOCK}", "```\n", "\0"],
)
def test_an_answer_without_files_has_none(answer):
    assert parse_answer(answer).files == {}
