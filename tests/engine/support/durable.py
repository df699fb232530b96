"""A core that keeps its data in a folder, dies by SIGKILL and comes back."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from .core import Core


class DurableCore(Core):
    """A core with `--data`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        super().__init__(f"--data={folder}", *options)

    def kill(self) -> None:
        """No time for last words."""
        self.lines.kill()

    def again(self) -> "DurableCore":
        """What follows after SIGKILL on the same folder."""
        self.kill()
        return DurableCore(self.folder, *self.options)

    @property
    def log(self) -> Path:
        """The log that counts."""
        return max(path for path in self.folder.glob("log-*") if path.suffix != ".tmp")


def wait_for(condition: Callable[[], bool]) -> None:
    """Polls until it holds."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def mutation_over_socket(core: Core, session: str, number: int, path: str, args: dict[str, Any]) -> dict[str, Any]:
    """The response to one mutation, by the session and number that make it the same one when it is sent again."""
    with connect(core.url.replace("http", "ws") + "/api/sync", max_size=None) as socket:
        hello = {"type": "Connect", "sessionId": session, "connectionCount": 0, "lastCloseReason": None}
        socket.send(json.dumps(hello))
        socket.send(json.dumps({"type": "Mutation", "requestId": number, "udfPath": path, "args": [args]}))
        while True:
            message: dict[str, Any] = json.loads(socket.recv(timeout=60))
            if message["type"] == "MutationResponse":
                return message
