"""The real CLI as a command that goes on until it is stopped."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .core import Core
from .toolchain import toolchain

DEADLINE = 60.0


class RunningCli:
    """What a command has printed so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + DEADLINE
        while text not in self.output:
            assert time.monotonic() < end, f"{text!r} never came, only {self.output!r}"
            assert self._reader.is_alive() or text in self.output, f"the command ended with {self.output!r}"
            time.sleep(0.02)

    def interrupt(self) -> int:
        """Stops the command as Ctrl-C does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running_cli(core: Core, folder: Path, *command: str) -> Iterator[RunningCli]:
    script = folder / "node_modules" / "convex" / "bin" / "main.js"
    process = subprocess.Popen(
        [toolchain().node, script, *command, "--url", core.url, "--admin-key", core.key],
        cwd=folder,
        env=toolchain().cli_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    command_line = RunningCli(process)
    try:
        yield command_line
    finally:
        command_line.kill()
