"""The grader's `screen`: a component of the submission in a DOM, wired to the deployment, used as people use it.

    def test_new_messages_appear(app, screen):
        screen.render("src/App.tsx")
        screen.wait_for_text("No messages yet")
        app.insert("messages", [{"text": "hello"}])
        screen.wait_for_texts(["hello"], role="listitem")

The component runs in a child process below a Convex provider; React and the Convex client are the submission's own. The
child is asked what can be seen, and what was expected is decided here. Every wait has a deadline and fails with the
visible text. A component that throws, never ends or takes its process down fails the check; a child that does not start
is `Trouble`.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.screen_child import ScreenChild, ScreenError

if TYPE_CHECKING:
    from pytest_convex_evals.cage.levels import Cage
    from pytest_convex_evals.engine.setup import Toolchain

WAIT_S = 10.0
BUNDLE_S = 60.0
_REST_S = (0.02, 0.1)
"""How long a wait rests when nothing changes on the screen, at first and at most."""
_BREATH_S = 0.002
"""Between two looks at a screen that changes all the time."""
_SHOWN = 1_500
_VARIABLES = ("VITE_CONVEX_URL", "NEXT_PUBLIC_CONVEX_URL", "REACT_APP_CONVEX_URL", "PUBLIC_CONVEX_URL", "CONVEX_URL")

Text = str | re.Pattern[str]
_Found = TypeVar("_Found")


class Deployment(Protocol):
    """What a screen needs of a backend."""

    url: str
    site_url: str
    relay: Path | None

    def prove_alive(self) -> None: ...  # noqa: D102


class Worker(Protocol):
    """What a screen needs of the toolchain worker."""

    def request(self, method: str, params: dict[str, Any], *, deadline_s: float) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Element:
    """Something on the screen, as assistive technology tells it."""

    role: str
    name: str
    text: str
    value: str | None
    """Of fields."""
    checked: bool | None
    """Of boxes and switches."""
    disabled: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A script of a component."""

    source: str
    name: str
    """What a child that has the program already knows it by."""


@dataclass(slots=True)
class Stage:
    """The screens of one cell: bundles are kept, and one child serves all checks as long as it lives."""

    toolchain: Toolchain
    worker: Worker
    project: Path
    """The submission on disk, installed and pushed."""
    folder: Path
    """Where bundles are written."""
    backend: Deployment
    cage: Cage
    """What components run in."""
    start: Callable[[Path | None], ScreenChild] | None = None
    """Gives a child that has run nothing yet; None to start one when it is needed."""
    _bundles: dict[tuple[str, str], list[Program]] = field(default_factory=dict)
    _child: ScreenChild | None = None

    def screen(self) -> Screen:
        """A blank screen for one check; what another check left is gone."""
        self.blank()
        return Screen(self)

    def blank(self) -> None:
        """Take down what is on the screen; a child that does not do that, or has no memory left, is ended."""
        if (child := self.showing()) is not None:
            try:
                is_spent = child.request("clear", {})
            except (AssertionError, Trouble):
                is_spent = True
            if is_spent:
                self.close()

    def child(self) -> ScreenChild:
        """The process that runs submitted components; a new one when the last one is gone."""
        if self._child is None or not self._child.alive:
            self.close()
            relay = self.backend.relay
            self._child = self.start(relay) if self.start else ScreenChild(self.toolchain, self.cage, relay)
        return self._child

    def showing(self) -> ScreenChild | None:
        """The process with what was rendered, also when it has died since; None when there is none."""
        return self._child if self._child is not None and self._child.used and not self._child.closed else None

    def bundle(self, path: str, export: str) -> list[Program]:
        """The programs of a component, in the order they run in; one that cannot be bundled fails the check."""
        known = self._bundles.get((path, export))
        if known is None:
            out = self.folder / f"screen-{len(self._bundles)}"
            params = {
                "project": str(self.project),
                "toolchain": str(self.toolchain.folder),
                "entry": path,
                "exportName": export,
                "out": str(out),
            }
            found = self.worker.request("bundleClient", params, deadline_s=BUNDLE_S)
            if found["errors"]:
                raise AssertionError(f"{path} cannot be bundled:\n" + "\n".join(found["errors"]))
            scripts = [Path(script).read_bytes() for script in found["scripts"]]
            known = [Program(script.decode(), hashlib.sha256(script).hexdigest()) for script in scripts]
            self._bundles[path, export] = known
        return known

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.close()


@dataclass(slots=True)
class Screen:
    """One rendered component."""

    _stage: Stage

    def render(
        self, path: str, *, export: str = "default", props: Mapping[str, Any] | None = None, online: bool = True
    ) -> None:
        """Mount a component; offline, the deployment does not answer before `go_online`."""
        child = self._stage.child()  # it starts while the bundle is made
        programs = self._stage.bundle(path, export)
        backend = self._stage.backend
        ports = [port for url in (backend.url, backend.site_url) if (port := urlsplit(url).port) is not None]
        mode = {"MODE": "development", "NODE_ENV": "development", "BASE_URL": "/"}
        child.start()
        thrown = self._ask(
            "render",
            programs=[
                {"name": one.name, "source": None if one.name in child.programs else one.source} for one in programs
            ],
            url=backend.url,
            ports=ports,
            props=dict(props or {}),
            environment=mode | dict.fromkeys(_VARIABLES, backend.url),
            online=online,
        )
        child.programs.update(one.name for one in programs)
        if thrown:
            raise AssertionError(f"{path} failed to render: {'; '.join(map(str, thrown))}")

    def go_online(self) -> None:
        """Let the deployment answer."""
        self._ask("online", online=True)

    def hold_timers(self, held: bool = True) -> None:
        """Timers of a quarter of a second and more stand still: what changes now was pushed by the deployment."""
        self._ask("timers", held=held)

    # Looking

    def text(self) -> str:
        """Everything that can be read now, a line per block."""
        return str(self._ask("text"))

    def has_text(self, text: Text) -> bool:
        """The text can be read now, wherever."""
        return _matches(text, self.text())

    def texts(self, *, role: str, name: Text | None = None) -> list[str]:
        """What can be read in each element of a role, in the order of the page."""
        return [str(entry) for entry in self._ask("texts", role=role, name=_name(name))]

    def elements(self, *, role: str, name: Text | None = None) -> list[Element]:
        """All elements of a role that are there now."""
        return [_element(entry) for entry in self._ask("elements", role=role, name=_name(name))]

    def find(self, *, role: str, name: Text | None = None, seconds: float = WAIT_S) -> Element:
        """The one element of a role and name; waits for it."""

        def look() -> Element | None:
            found = self.elements(role=role, name=name)
            return found[0] if len(found) == 1 else None

        called = f" called {_shown(name)}" if name is not None else ""
        found = self._wait(look, lambda: f"there is not one {role}{called}", seconds)
        assert found is not None
        return found

    def html(self) -> str:
        """The document, for messages; long ones are cut off."""
        return str(self._ask("html"))

    @property
    def errors(self) -> list[str]:
        """What the component threw and did not handle."""
        return [str(entry) for entry in self._ask("said")["errors"]]

    @property
    def printed(self) -> list[str]:
        """What the component printed, each line with its level."""
        return [str(entry) for entry in self._ask("said")["printed"]]

    # Waiting

    def wait_for_text(self, text: Text, *, seconds: float = WAIT_S) -> None:
        """Until the text can be read."""
        self._wait(lambda: self.has_text(text), lambda: f"{_shown(text)} did not appear", seconds)

    def wait_until_gone(self, text: Text, *, seconds: float = WAIT_S) -> None:
        """Until the text can no longer be read."""
        self._wait(lambda: not self.has_text(text), lambda: f"{_shown(text)} did not go away", seconds)

    def wait_for_texts(self, texts: Sequence[str], *, role: str, seconds: float = WAIT_S) -> None:
        """Until the elements of a role read exactly like this, in this order."""
        latest: list[str] = []

        def look() -> bool:
            latest[:] = self.texts(role=role)
            return latest == list(texts)

        self._wait(look, lambda: f"each {role} should read {list(texts)!r}, but they are {latest!r}", seconds)

    # Acting

    def click(self, name: Text, *, role: str = "button", seconds: float = WAIT_S) -> None:
        """Click something by its accessible name; waits for it."""
        self._act("click", seconds, role=role, name=_name(name))

    def type(self, label: Text | None, text: str, *, clear: bool = False, seconds: float = WAIT_S) -> None:
        """Type into a field, found by label, placeholder or accessible name; None is the only field there is."""
        self._act("type", seconds, name=_name(label), text=text, clear=clear)

    def select(self, label: Text | None, option: str, *, seconds: float = WAIT_S) -> None:
        """Choose an option of a list, by its text or value."""
        self._act("select", seconds, name=_name(label), option=option)

    def press(self, key: str) -> None:
        """Press a key where the focus is, for example "Enter"."""
        self._act("press", 0.0, key=key)

    # The child

    def _ask(self, op: str, **params: Any) -> Any:
        child = self._stage.child() if op == "render" else self._stage.showing()
        if child is None:
            raise ScreenError("nothing_rendered", "nothing has been rendered yet")
        return child.request(op, params)

    def _act(self, op: str, seconds: float, **params: Any) -> None:
        latest: list[ScreenError] = []

        def attempt() -> bool:
            try:
                self._ask(op, **params)
            except ScreenError as error:
                if error.code not in {"not_found", "ambiguous"}:
                    raise
                latest[:] = [error]
                return False
            return True

        self._wait(attempt, lambda: latest[0].message, seconds)

    def _wait(self, look: Callable[[], _Found], failure: Callable[[], str], seconds: float) -> _Found:
        deadline = time.monotonic() + seconds
        rest, longest = _REST_S
        while not (found := look()):
            if time.monotonic() >= deadline:
                self._stage.backend.prove_alive()
                raise AssertionError(f"{failure()} (waited {seconds:g} s); {self._situation()}")
            time.sleep(_BREATH_S)
            self._ask("rest", seconds=max(0.0, min(rest, deadline - time.monotonic())))
            rest = min(rest * 1.5, longest)
        return found

    def _situation(self) -> str:
        shown, errors = self.text(), self.errors
        text = f"the screen shows:\n{shown[:_SHOWN]}" if shown else "the screen is empty"
        return "\n".join([text, *(f"thrown: {error}" for error in errors[:5])])


def _matches(text: Text, shown: str) -> bool:
    if isinstance(text, re.Pattern):
        return text.search(shown) is not None
    return " ".join(text.split()) in " ".join(shown.split())


def _name(name: Text | None) -> dict[str, str] | None:
    if name is None:
        return None
    if isinstance(name, re.Pattern):
        return {"pattern": name.pattern, "flags": "iu" if name.flags & re.IGNORECASE else "u"}
    return {"text": name}


def _shown(text: Text | None) -> str:
    return f"/{text.pattern}/" if isinstance(text, re.Pattern) else repr(text)


def _element(entry: Mapping[str, Any]) -> Element:
    return Element(
        role=str(entry["role"]),
        name=str(entry["name"]),
        text=str(entry["text"]),
        value=entry["value"],
        checked=entry["checked"],
        disabled=bool(entry["disabled"]),
    )
