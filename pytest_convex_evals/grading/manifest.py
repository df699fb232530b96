"""The packages of a submission: what its package.json may ask for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pytest_convex_evals.records import Failed

MAX_PACKAGES = 120
_GROUPS = ("peerDependencies", "optionalDependencies", "devDependencies", "dependencies")
"""Later ones win."""
_NAME = re.compile(r"^(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*$")
_VERSION = re.compile(r"^[A-Za-z0-9.*^~<>=|+\s-]*$")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Package name → range or tag, of the registry only."""

    packages: dict[str, str]

    def to_json(self) -> str:
        """A package.json that asks for these packages and configures nothing."""
        content = {"name": "submission", "version": "0.0.0", "private": True, "type": "module"}
        return json.dumps({**content, "dependencies": dict(sorted(self.packages.items()))}, indent=2) + "\n"


def read_manifest(text: str | None) -> Manifest | Failed:
    """What may be installed, or why nothing may."""
    if text is None:
        return Failed(cause="package", reason="there is no package.json")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Failed(cause="package", reason=f"package.json is not JSON: {error}")
    if not isinstance(content, dict):
        return Failed(cause="package", reason="package.json is not an object")
    packages: dict[str, str] = {}
    for group in _GROUPS:
        wanted = content.get(group, {})
        if not isinstance(wanted, dict):
            return Failed(cause="package", reason=f"{group} of package.json is not an object")
        for name, version in wanted.items():
            problem = _problem(name, version)
            if problem:
                return Failed(cause="package", reason=f"{group} of package.json: {problem}")
            packages[name] = version.strip()
    if len(packages) > MAX_PACKAGES:
        return Failed(cause="limit", reason=f"package.json asks for more than {MAX_PACKAGES} packages")
    return Manifest(packages)


def _problem(name: str, version: object) -> str:
    if not _NAME.match(name) or len(name) > 214 or name in {"node_modules", "favicon.ico"}:
        return f"{name[:80]!r} is not the name of a package"
    if not isinstance(version, str) or len(version) > 200:
        return f"the version of {name} is not a text"
    if not _VERSION.match(version):
        return f"{name} must be a version of the registry, not {version[:80]!r}"
    return ""
