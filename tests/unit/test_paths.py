"""The ruling on single paths: keep, ignore or refuse, each with its reason."""

import os
import unicodedata

import pytest
from hypothesis import example, given, settings

from pytest_convex_evals.grading.paths import folded, rule_on
from tests.support.nasty import NASTY

KEPT = {
    "package.json": "package.json",
    "convex/schema.ts": "convex/schema.ts",
    "./convex/./schema.ts": "convex/schema.ts",
    "convex/[id].ts": "convex/[id].ts",
    "src/a b/c (1).tsx": "src/a b/c (1).tsx",
    "convex/gr\u00f6\u00dfe.ts": "convex/gr\u00f6\u00dfe.ts",
    "convex/gro\u0308\u00dfe.ts": "convex/gr\u00f6\u00dfe.ts",
    "src/日本語.ts": "src/日本語.ts",
    "tsconfig.json": "tsconfig.json",
    "console.ts": "console.ts",
    "convex/com10.ts": "convex/com10.ts",
    "a" * 197 + ".ts": "a" * 197 + ".ts",
    "/".join(["d"] * 23 + ["f.ts"]): "/".join(["d"] * 23 + ["f.ts"]),
}


@pytest.mark.parametrize(("path", "kept"), KEPT.items(), ids=ascii)
def test_honest_paths_are_kept_in_normal_form(path, kept):
    ruling = rule_on(path)
    assert (ruling.answer, ruling.path) == ("keep", kept)


REFUSED = {
    "is empty or begins or ends with a space": ["", " ", " a.ts", "a.ts ", "a.ts\n", "\u3000a.ts"],
    "is absolute": ["/etc/passwd", "//server/share.ts", "C:/a.ts", "c:\\a.ts", "z:a.ts"],
    "begins with ~": ["~/a.ts", "~root/.ssh/x.ts", "~"],
    "has a backslash": ["convex\\a.ts", "..\\a.ts", "a/\\b.ts"],
    "has a control or invisible character": [
        "a\0.ts",
        "a\nb.ts",
        "a\rb.ts",
        "a\tb.ts",
        "a\x1b[2J.ts",
        "a\x7f.ts",
        "a\x85b.ts",
        "a\u200b.ts",
        "a\u200d.ts",
        "a\u202ets.b",
        "a\u2066b.ts",
        "a\ufeffb.ts",
        "a\u2028b.ts",
        "a\u2029b.ts",
        "a\U000e0041.ts",
        "a\ud800.ts",
    ],
    "leaves the project by ..": ["..", "../a.ts", "a/../b.ts", "a/..", "convex/../../a.ts", "./../a.ts"],
    "has an empty part, or names a folder": ["convex//a.ts", "convex/", "a.ts/"],
    "is deeper than 24 folders": ["/".join(["d"] * 24 + ["f.ts"]), "./" * 24 + "f.ts"],
    "names no file": [".", "./.", "a/."],
    "is longer than 800 bytes": ["/".join(["a" * 100] * 8) + "/b.ts", "ä" * 400 + ".ts"],
    "has a part longer than 200 bytes": ["a" * 201, "a" * 198 + ".ts", "ä" * 99 + ".ts", "x/" + "b" * 201 + "/c.ts"],
    "has a part that ends with a dot or a space": ["a./b.ts", "a /b.ts", "a.ts.", ".../a.ts"],
    "is not a file name on every system": [
        "con",
        "CON.ts",
        "a/nul.txt",
        "aux/b.ts",
        "com1",
        "LPT9.log",
        "a<b.ts",
        "a>b.ts",
        "ab:c.ts",
        'a"b.ts',
        "a|b.ts",
        "a?.ts",
        "a*.ts",
    ],
}


@pytest.mark.parametrize(
    ("path", "reason"), [(path, reason) for reason, paths in REFUSED.items() for path in paths], ids=ascii
)
def test_paths_that_no_honest_answer_has_are_refused_with_the_reason(path, reason):
    ruling = rule_on(path)
    assert (ruling.answer, ruling.reason, ruling.path) == ("refuse", reason, path)


IGNORED = {
    "packages are installed by us": ["node_modules/a/index.js", "x/Node_Modules/a.js", "node_modules"],
    "generated code is generated again": ["convex/_generated/api.ts", "convex/_GENERATED/api.js", "_generated/x/y.ts"],
    "version control is not part of a submission": [".git/config", ".git", "a/.GIT/hooks/pre-commit"],
    "would configure npm": [".npmrc", "convex/.npmrc", ".NPMRC"],
    "would configure yarn": [".yarnrc", ".yarnrc.yml"],
    "would configure pnpm": [".pnpmfile.cjs"],
    "would configure bun": ["bunfig.toml", ".bunfig.toml"],
    "would configure Node": [".node-version", ".nvmrc", ".tool-versions"],
    "versions are resolved by us": [
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
        "Package-Lock.json",
    ],
    "would set the environment of tools": [".env", ".env.local", "convex/.env", ".ENV.production"],
    "hidden files are not graded": [
        ".gitignore",
        ".eslintrc.json",
        ".vscode/settings.json",
        "src/..a/b.ts",
        ".environment",
    ],
}


@pytest.mark.parametrize(
    ("path", "reason"), [(path, reason) for reason, paths in IGNORED.items() for path in paths], ids=ascii
)
def test_what_tools_create_or_what_would_configure_them_is_ignored_with_the_reason(path, reason):
    ruling = rule_on(path)
    assert (ruling.answer, ruling.reason, ruling.path) == ("ignore", reason, path)


@settings(max_examples=600)
@given(NASTY)
@example("\uff0e\uff0e/a.ts")
@example("\u2024\u2024/a.ts")
@example("..\uff0fa.ts")
@example("\U0001d160" * 49 + ".ts")
def test_whatever_is_kept_is_a_plain_path_below_the_project(path):
    ruling = rule_on(path)
    if ruling.answer != "keep":
        assert ruling.reason
        return
    parts = ruling.path.split("/")
    assert os.path.normpath(os.path.join("/project", ruling.path)) == "/project/" + ruling.path
    assert all(part not in {"", ".", ".."} and not part.startswith(".") for part in parts)
    assert all(len(part.encode()) <= 200 for part in parts)
    assert unicodedata.is_normalized("NFC", ruling.path)
    assert rule_on(ruling.path) == ruling


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("convex/A.ts", "convex/a.ts"),
        ("Convex/a.ts", "convex/a.ts"),
        ("convex/\u00e9.ts", "convex/e\u0301.ts"),
        ("convex/\u212a.ts", "convex/k.ts"),
        ("convex/stra\u00dfe.ts", "convex/STRASSE.ts"),
        ("convex/\ufb01.ts", "convex/fi.ts"),
        ("convex/\u0130.ts", "convex/i\u0307.ts"),
    ],
    ids=ascii,
)
def test_paths_that_are_one_file_somewhere_fold_to_the_same(one, other):
    assert folded(one) == folded(other)


def test_different_files_fold_to_different_paths():
    assert folded("convex/a.ts") != folded("convex/b.ts")
