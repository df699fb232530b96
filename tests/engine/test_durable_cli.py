"""`convex-evals backend --data DIR`, with real processes."""

import re
import subprocess
import sys
from pathlib import Path

from .support.core import request

COMMAND = [sys.executable, "-m", "pytest_convex_evals.cli.main", "backend"]
DEADLINE = 60.0


def served(folder: Path) -> tuple[str, str, str]:
    """Starts the command, sets a variable, ends it. Its output, the key, the variables before."""
    running = subprocess.Popen([*COMMAND, f"--data={folder}"], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    said = ""
    while "Ctrl-C ends the backend" not in said:
        line = running.stdout.readline()
        assert line, said
        said += line
    found = re.search(r"backend +(\S+)\n.*\nadmin key +(\S+)\n", said)
    assert found is not None
    url, key = found.groups()
    headers = {"Authorization": f"Convex {key}", "Content-Type": "application/json"}
    before = request(f"{url}/api/list_environment_variables", headers=headers).text
    body = b'{"changes": [{"name": "A", "value": "%d"}]}' % len(before)
    assert request(f"{url}/api/update_environment_variables", body, headers).status == 200
    running.terminate()
    running.communicate(timeout=DEADLINE)
    return said, key, before


def test_a_backend_comes_back_with_its_key_and_its_data(tmp_path: Path) -> None:
    said, key, before = served(tmp_path / "data")
    assert f"its data stays in {tmp_path / 'data'}." in said
    assert '"A"' not in before
    _, key_again, after = served(tmp_path / "data")
    assert key_again == key
    assert f'"A":"{len(before)}"' in after


def test_a_folder_that_cannot_be_used_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    ended = subprocess.run(
        [*COMMAND, f"--data={tmp_path}"], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert ended.returncode == 1
    assert f"{tmp_path} is not empty and no data folder of this engine" in ended.stdout + ended.stderr
    assert "what to do: choose an empty folder or a new name" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
