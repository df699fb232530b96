"""A child process that answers JSON lines."""

import json
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

DEADLINE = 240.0


class LineProcess:
    """Requests `{"id", …}` on standard input, answers `{"id", …}` on standard output, each with a deadline."""

    def __init__(self, command: list[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd, env=env
        )
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._unasked: queue.Queue[dict[str, Any]] = queue.Queue()
        self._next = 0
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            self._answers.get(message.get("id"), self._unasked).put(message)
        for waiting in (self._unasked, *self._answers.values()):
            waiting.put({"ended": True})

    def first(self) -> dict[str, Any]:
        """The next line that is no answer."""
        return self._checked(self._unasked.get(timeout=DEADLINE))

    def _checked(self, message: dict[str, Any]) -> dict[str, Any]:
        assert "ended" not in message, f"the process ended with {self.process.wait(DEADLINE)}"
        return message

    def begin(self, **message: Any) -> Callable[[], dict[str, Any]]:
        """Sends a request. The result waits for its answer; requests arrive in the order in which they were begun."""
        with self._lock:
            self._next += 1
            number = self._next
            answers: queue.Queue[dict[str, Any]] = queue.Queue()
            self._answers[number] = answers
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"id": number, **message}) + "\n")
            self.process.stdin.flush()

        def answer() -> dict[str, Any]:
            try:
                return self._checked(answers.get(timeout=DEADLINE))
            finally:
                del self._answers[number]

        return answer

    def ask(self, **message: Any) -> dict[str, Any]:
        """Sends a request and waits for its answer."""
        return self.begin(**message)()

    def close(self) -> int:
        """Closes standard input and waits for the end; also after the end, and twice."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.close()
