"""Where results go: the deployment, its name, and whether this machine may write to it.

Only the standard library: this is looked at before anything is started.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pytest_convex_evals.errors import SettingsError

CONFIG_FILE = "scores.toml"
URL, TOKEN = "CONVEX_EVAL_URL", "CONVEX_AUTH_TOKEN"
ADMIN_KEYS = ("CONVEX_DEPLOY_KEY", "CONVEX_SELF_HOSTED_ADMIN_KEY")
PRODUCTION, DEVELOPMENT = "production", "development"
FORCE = "--evals-to-production"
_MAIN = "main"
_KEYS = {PRODUCTION, DEVELOPMENT, "branch"}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_PORTS = {"https": 443, "http": 80}
_REQUESTS = ("pull_request", "merge_request", "external_pull_request")
"""Events of CI that run what somebody proposes, whatever branch they name."""


@dataclass(frozen=True, slots=True)
class Deployments:
    """What `scores.toml` says."""

    urls: Mapping[str, str]
    """production, development → address."""
    branch: str = _MAIN
    """The branch on which CI may write to production."""

    @classmethod
    def read(cls, project: Path) -> Deployments:
        """The file in this folder or in the nearest one above; without one nothing has a name."""
        folder = project.absolute()
        found = (one / CONFIG_FILE for one in (folder, *folder.parents) if (one / CONFIG_FILE).exists())
        path = next(found, None)
        if path is None:
            return cls({})
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{path} cannot be read: {error}.\n  what to do: correct or remove it") from None
        for key, value in content.items():
            if key not in _KEYS or not isinstance(value, str) or not value:
                known = ", ".join(sorted(_KEYS))
                raise SettingsError(f"{path}: {key!r} is not known, or no text.\n  what to do: use only {known}")
        urls = {name: address(content[name], str(path)) for name in (PRODUCTION, DEVELOPMENT) if name in content}
        if len(set(urls.values())) < len(urls):
            raise SettingsError(f"{path}: production and development are the same.\n  what to do: give each its own")
        return cls(urls, content.get("branch", _MAIN))

    def find(self, asked: str, source: str) -> tuple[str, str]:
        """Address and name of what was asked for by either; the name is empty when the file does not know it."""
        if asked in {PRODUCTION, DEVELOPMENT}:
            if asked not in self.urls:
                raise SettingsError(
                    f"{source} is {asked!r}, which has no address.\n"
                    f'  what to do: write {asked} = "https://…" into {CONFIG_FILE}, or give the address itself'
                )
            return self.urls[asked], asked
        url = address(asked, source)
        return url, next((name for name, known in self.urls.items() if known == url), "")


@dataclass(frozen=True, slots=True)
class Target:
    """A deployment that results are written to."""

    url: str
    name: str
    """`production`, `development`, or empty."""
    token: str

    def __repr__(self) -> str:
        return f"Target({self.shown})"

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.name} ({self.url})" if self.name else self.url


def address(text: str, source: str) -> str:
    """An address as it is compared; plain HTTP only where nobody can listen."""
    parts = urlsplit(text.strip().rstrip("/"))
    try:
        port = parts.port
    except ValueError:
        port = -1
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure or not parts.hostname or port == -1 or parts.query or parts.fragment or parts.username:
        raise SettingsError(
            f"{source}: {text!r} is not the address of a deployment.\n"
            "  what to do: give https://NAME.convex.cloud, or the loopback address that `convex-evals scores` prints"
        )
    host = parts.hostname.rstrip(".")
    host = f"[{host}]" if ":" in host else host
    shown = "" if port in {None, _PORTS[parts.scheme]} else f":{port}"
    return f"{parts.scheme}://{host}{shown}{parts.path.rstrip('/')}"


def find_target(environment: Mapping[str, str], project: Path) -> tuple[Target | None, str]:
    """Where results go; without a target, why not."""
    url, token = environment.get(URL, ""), environment.get(TOKEN, "")
    if not url or not token:
        missing = " and ".join(name for name, value in ((URL, url), (TOKEN, token)) if not value)
        return None, f"{missing} {'is' if url or token else 'are'} not set"
    found, name = Deployments.read(project).find(url, URL)
    return Target(found, name, token), ""


def guard_production(name: str, environment: Mapping[str, str], project: Path, *, forced: bool, flag: str) -> None:
    """Only CI on the main branch writes to production, unless somebody says otherwise."""
    if name != PRODUCTION or forced:
        return
    branch = Deployments.read(project).branch
    if ci_branch(environment) == branch:
        return
    raise SettingsError(
        f"{URL} is the production deployment, which only CI on the branch {branch} writes to.\n"
        f"  what to do: set {URL}={DEVELOPMENT}, or {flag}; {FORCE} writes to production from here"
    )


def ci_branch(environment: Mapping[str, str]) -> str:
    """The branch that CI works on; empty outside of CI, and for pull requests and tags."""
    events = (environment.get(name, "") for name in ("GITHUB_EVENT_NAME", "CI_PIPELINE_SOURCE"))
    if any(event.startswith(_REQUESTS) for event in events):
        return ""
    if environment.get("GITHUB_ACTIONS") == "true":
        return environment.get("GITHUB_REF", "").removeprefix("refs/heads/")
    if environment.get("GITLAB_CI") == "true":
        return environment.get("CI_COMMIT_BRANCH", "")
    return ""
