"""A loopback npm registry that knows what it is told, and can misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class NpmRegistry:
    """Serves packuments (name → versions) and answers everything else with `status`."""

    def __init__(
        self,
        packages: dict[str, list[str]] | None = None,
        *,
        status: int = 404,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        known = packages or {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/").replace("%2f", "/").replace("%2F", "/")
                outer.asked.append(name)
                before()
                body, code = b'{"error":"Not found"}', status
                if name in known:
                    versions = {
                        version: {"name": name, "version": version, "dist": {"tarball": "http://127.0.0.1:1/archive"}}
                        for version in known[name]
                    }
                    latest = known[name][-1]
                    body = json.dumps({"name": name, "dist-tags": {"latest": latest}, "versions": versions}).encode()
                    code = 200
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> NpmRegistry:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
