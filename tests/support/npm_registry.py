"""A loopback npm registry that knows what it is told, and can misbehave."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class NpmRegistry:
    """Serves packuments (name → versions) and answers everything else with `status`.

    A package whose files are given can be installed too; the files are the same in all its versions. `manifest` is
    what the package.json of all packages says beside name and version.
    """

    def __init__(
        self,
        packages: dict[str, list[str]] | None = None,
        *,
        files: dict[str, dict[str, str]] | None = None,
        manifest: dict[str, object] | None = None,
        status: int = 404,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        known = packages or {}
        self._manifest = manifest or {}
        archives = {
            f"archive/{name}/{version}": _archive({"name": name, "version": version, **self._manifest}, content)
            for name, content in (files or {}).items()
            for version in known[name]
        }
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/").replace("%2f", "/").replace("%2F", "/")
                outer.asked.append(name)
                before()
                body, code = b'{"error":"Not found"}', status
                if name in archives:
                    body, code = archives[name], 200
                elif name in known:
                    versions = {version: outer._described(name, version, archives) for version in known[name]}
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

    def _described(self, name: str, version: str, archives: dict[str, bytes]) -> dict[str, object]:
        where = f"archive/{name}/{version}"
        dist = {"tarball": "http://127.0.0.1:1/archive"}
        if where in archives:
            digest = base64.b64encode(hashlib.sha512(archives[where]).digest()).decode()
            dist = {"tarball": f"{self.url}{where}", "integrity": f"sha512-{digest}"}
        return {"name": name, "version": version, **self._manifest, "dist": dist}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> NpmRegistry:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _archive(manifest: dict[str, object], files: dict[str, str]) -> bytes:
    """What the registry hands out for one version: always the same bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, text in {"package.json": json.dumps(manifest), **files}.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(stream.getvalue(), mtime=0)
