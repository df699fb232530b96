"""Folders for what comes and goes."""

import shutil
import tempfile
from pathlib import Path

from pytest_convex_evals import files


def test_a_passing_folder_is_in_the_first_place_that_takes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PASSING", (str(tmp_path / "missing"), str(tmp_path)))
    made = files.passing_folder("cage-")
    assert made.parent == tmp_path
    assert made.name.startswith("cage-")
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_passing_folder_is_somewhere_where_no_place_takes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PASSING", (str(tmp_path / "missing"),))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert files.passing_folder("cage-").parent == tmp_path


def test_names_of_sockets_fit():
    made = files.passing_folder("cage-")
    try:
        assert len(str(made / "65535.sock")) < 100
        assert made.is_relative_to("/dev/shm") or not Path("/dev/shm").is_dir()
    finally:
        shutil.rmtree(made)
