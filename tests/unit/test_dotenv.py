"""A .env is optional; one that cannot be used is named and ignored."""

import pytest

from pytest_convex_evals.environment import Environment, Value


def test_values_of_dotenv_are_known_and_the_process_wins(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("# comment\nexport A='one'\nB=two # tail\nC=\nD=${A}\n", encoding="utf-8")
    monkeypatch.setenv("B", "of the process")
    environment = Environment.read(tmp_path)
    assert environment.warnings == ()
    assert environment.get("A") == Value("one", ".env A")
    assert environment.get("B") == Value("of the process", "environment B")
    assert environment.get("C") is None
    assert environment.get("D") == Value("${A}", ".env D")
    assert environment.merged()["A"] == "one"
    assert environment.merged()["B"] == "of the process"


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path):
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbfA=one\r\nB=two\r\n")
    assert Environment.read(tmp_path).dotenv == {"A": "one", "B": "two"}


def test_no_dotenv_is_nothing_to_mention(tmp_path):
    environment = Environment.read(tmp_path)
    assert (environment.dotenv, environment.warnings) == ({}, ())


NOT_TEXT = {
    "binary": b"\x7fELF\x02\x01\x01\x00\x00",
    "zeros": b"MODELS=gpt-5\n\0\0\0",
    "UTF-16": "MODELS=gpt-5\n".encode("utf-16"),
    "UTF-16 without a mark": "MODELS=gpt-5\n".encode("utf-16-le"),
    "Latin-1": "NAME=Zoë\n".encode("latin-1"),
}


@pytest.mark.parametrize("content", NOT_TEXT.values(), ids=NOT_TEXT.keys())
def test_a_dotenv_that_is_not_text_is_named_and_ignored(content, tmp_path):
    path = tmp_path / ".env"
    path.write_bytes(content)
    environment = Environment.read(tmp_path)
    assert environment.dotenv == {}
    assert environment.warnings == (f"{path} ignored: it is not UTF-8 text",)


def test_a_dotenv_that_is_a_folder_is_named_and_ignored(tmp_path):
    (tmp_path / ".env").mkdir()
    environment = Environment.read(tmp_path)
    assert environment.warnings == (f"{tmp_path / '.env'} ignored: Is a directory",)


def test_a_dotenv_that_cannot_be_read_is_named_and_ignored(tmp_path):
    (tmp_path / ".env").symlink_to(".env")
    environment = Environment.read(tmp_path)
    (warning,) = environment.warnings
    assert warning.startswith(f"{tmp_path / '.env'} ignored: Too many levels of symbolic links")


def test_the_process_is_not_changed_by_dotenv(tmp_path, monkeypatch):
    import os

    (tmp_path / ".env").write_text("CONVEX_EVALS_UNIT_TEST=1\n", encoding="utf-8")
    Environment.read(tmp_path)
    assert "CONVEX_EVALS_UNIT_TEST" not in os.environ
