"""An engine with one tiny npm package, and the loopback registry that serves it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import socket
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAME, VERSION = "convex-evals-tiny", "1.0.0"
BUILD = """\
import { writeFileSync } from "node:fs";
import { answer } from "convex-evals-tiny";
writeFileSync(`${process.argv[3]}/toolchain.mjs`, `console.log(${answer})`);
"""


def _tarball() -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        files = {
            "package.json": json.dumps({"name": NAME, "version": VERSION, "type": "module", "main": "index.js"}),
            "index.js": "export const answer = 42;\n",
        }
        for path, text in files.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue(), mtime=0)


TARBALL = _tarball()
INTEGRITY = f"sha512-{base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()}"


class TinyRegistry:
    """Serves the package and remembers what was fetched."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.fetched.append(self.path)
                body = TARBALL if self.path.endswith(".tgz") else outer.packument()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def packument(self) -> bytes:
        dist = {"tarball": f"{self.url}{NAME}/-/{NAME}-{VERSION}.tgz", "integrity": INTEGRITY}
        versions = {VERSION: {"name": NAME, "version": VERSION, "dist": dist}}
        return json.dumps({"name": NAME, "dist-tags": {"latest": VERSION}, "versions": versions}).encode()

    def close(self) -> None:
        """May be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def closed_port() -> int:
    """A loopback port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_engine(folder: Path) -> None:
    """What the package ships in `engine/`, only smaller."""
    root = {"name": "tiny-engine", "version": "0.0.0", "dependencies": {NAME: VERSION}}
    packages = {"": root, f"node_modules/{NAME}": {"version": VERSION, "integrity": INTEGRITY}}
    lock = {"name": "tiny-engine", "version": "0.0.0", "lockfileVersion": 3, "requires": True, "packages": packages}
    (folder / "src" / "toolchain").mkdir(parents=True)
    (folder / "src" / "toolchain" / "main.ts").write_text("export {};\n", encoding="utf-8")
    (folder / "package.json").write_text(json.dumps(root | {"private": True, "type": "module"}), encoding="utf-8")
    (folder / "package-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    (folder / ".npmrc").write_text("omit-lockfile-registry-resolved=true\nfund=false\naudit=false\n", encoding="utf-8")
    (folder / "build.mjs").write_text(BUILD, encoding="utf-8")
