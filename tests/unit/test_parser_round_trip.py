"""Files that are rendered and parsed back are the same files, up to line ends and the final newline."""

import subprocess
import sys
import textwrap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_convex_evals.generation.parser import parse_answer, render_files

_FENCE_LIKE = st.sampled_from(
    [
        "```",
        "````",
        "~~~",
        "```ts",
        "```md",
        "# Files",
        "## convex/a.ts",
        "**convex/b.ts**",
        "`c.ts`",
        "   ```",
        "#",
        "",
    ]
)
_LINE = st.one_of(st.text(max_size=30), _FENCE_LIKE)
_CONTENT = st.one_of(
    st.text(max_size=200),
    st.lists(_LINE, max_size=12).map("\n".join),
    st.lists(_LINE, max_size=12).map("\r\n".join),
)
_PART = st.text(alphabet="abcXYZ019_-[]()@$+", min_size=1, max_size=8).filter(lambda part: part[0].isalnum())
_PATH = st.builds(
    lambda folders, name, suffix: "/".join([*folders, f"{name}.{suffix}"]),
    st.lists(_PART, max_size=3),
    _PART,
    st.sampled_from(["ts", "tsx", "json", "md", "mdx", "js", "config.ts"]),
)


def canonical(content: str) -> str:
    """What may differ: line ends, and whether the last line is ended."""
    ended = content if not content or content.endswith("\n") else f"{content}\n"
    return ended.replace("\r\n", "\n")


@settings(max_examples=200)
@given(st.dictionaries(_PATH, _CONTENT, min_size=1, max_size=5))
@example({"README.md": "# Title\n\n```bash\nnpm install\n```\n"})
@example({"README.md": "```md\n```ts\n~~~\n"})
@example({"convex/a.ts": "\0\r\x0b\x0c\x1c\x85\u2028\u2029"})
@example({"convex/a.ts": "```\n````\n~~~~~~~\n"})
@example({"convex/a.ts": "no newline", "convex/b.ts": "", "convex/c.ts": "\n\n"})
@example({"convex/a.ts": "\ufeffexport {};"})
@example({"convex/a.ts": "\ud800"})
def test_any_content_survives_rendering_and_parsing(files):
    parsed = parse_answer(render_files(files))
    assert {path: canonical(content) for path, content in parsed.files.items()} == {
        path: canonical(content) for path, content in files.items()
    }
    assert list(parsed.files) == list(files)
    assert parsed.notes == ()


@settings(max_examples=200)
@given(st.dictionaries(_PATH, _CONTENT.filter(lambda content: "\r" not in content), min_size=1, max_size=3))
def test_an_answer_with_windows_line_ends_has_the_same_files(files):
    answer = render_files(files).replace("\n", "\r\n")
    parsed = parse_answer(answer)
    assert {path: canonical(content) for path, content in parsed.files.items()} == {
        path: canonical(content) for path, content in files.items()
    }


@settings(max_examples=300)
@given(st.lists(_LINE, max_size=40).map("\n".join))
def test_no_text_breaks_the_parser(text):
    parsed = parse_answer(text)
    assert all(content == "" or content.endswith("\n") for content in parsed.files.values())


# Each is an expression of up to five million characters that would take hours in quadratic time.
HUGE = {
    "spaces inside a heading": "'# a' + ' ' * N + 'b'",
    "closing marks of a heading": "'# a' + ' #' * (N // 2)",
    "spaces after a fence": "'```' + ' ' * N + '`'",
    "backticks": "'`' * N",
    "backticks that do not end": "'`' * N + 'x`'",
    "quotes around quotes": "'# ' + '\"' * N",
    "asterisks": "'*' * N",
    "bold on a line": "'**a' * (N // 3)",
    "slashes": "'# ' + './' * (N // 2) + ' '",
    "Files headings": "'# Files\\n' * (N // 40)",
    "path headings": "'## a/b.ts\\n' * (N // 50)",
    "unclosed fences": "'## a.md\\n```md\\n' * (N // 50)",
    "inner fences that do not pair up": "'## a.md\\n```md\\n```x\\n```\\n' * (N // 100)",
    "files": "''.join(f'## f{i}.ts\\n```\\n```\\n' for i in range(N // 100))",
    "headings with many comments": "('# a' + ' (' * 2000 + '\\n') * (N // 4004)",
    "headings with wide gaps": "('# a' + ' ' * 4000 + '(\\n') * (N // 4005)",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_a_huge_answer_is_parsed_in_the_time_of_its_size(text):
    program = textwrap.dedent(f"""
        from pytest_convex_evals.generation.parser import parse_answer
        N = 5_000_000
        parse_answer({text})
        print("parsed")
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "parsed\n"
