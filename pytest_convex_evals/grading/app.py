"""The grader's client: `app` in a check is the deployed submission, fresh and empty.

    def test_transfers_move_money(app):
        app.insert("accounts", [{"name": "a", "balance": 10}])
        app.mutation("bank:deposit", {"name": "a", "amount": 5})
        assert app.query("bank:balance", {"name": "a"}) == 15

A function of the submission that fails raises `FunctionError`: an ordinary exception, so it fails the check unless
`rejects` expects it. Trouble of ours is `Trouble` and never counts against the submission. Every call has a deadline.
"""

from __future__ import annotations

import http.client
import json as jsonlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_convex_evals.backends.base import ANONYMOUS, FunctionError, Identity
from pytest_convex_evals.values import Value

if TYPE_CHECKING:
    from pytest_convex_evals.backends.base import Backend, CronJob, CronRun, ScheduledFunction
    from pytest_convex_evals.grading.subscription import Subscription

CALL_S = 20.0


@dataclass(frozen=True, slots=True)
class SiteResponse:
    """What an HTTP action answered."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON."""
        return jsonlib.loads(self.body)


@dataclass(slots=True)
class Cost:
    """What was used inside a `measure` block; filled when the block ends."""

    documents_read: int = 0
    bytes_read: int = 0
    documents_written: int = 0
    functions_scheduled: int = 0


@dataclass(slots=True)
class App:
    """The deployed submission, seen by one caller."""

    _backend: Backend
    _identity: Identity = ANONYMOUS
    _deadline_s: float = CALL_S
    _closing: list[Any] = field(default_factory=list)

    # Callers

    def as_admin(self) -> App:
        """The same app, called with the admin key: internal functions are reachable."""
        return replace(self, _identity=Identity("admin"))

    def as_user(self, subject: str, *, issuer: str = "https://issuer.example", **attributes: Value) -> App:
        """The same app, called by a user who has logged in; attributes are those of `UserIdentity`."""
        return replace(self, _identity=Identity("user", {"subject": subject, "issuer": issuer, **attributes}))

    # Functions

    def query(self, path: str, args: Mapping[str, Value] | None = None, *, component: str = "") -> Value:
        """Run a query."""
        return self._call("query", path, args, component)

    def mutation(self, path: str, args: Mapping[str, Value] | None = None, *, component: str = "") -> Value:
        """Run a mutation."""
        return self._call("mutation", path, args, component)

    def action(self, path: str, args: Mapping[str, Value] | None = None, *, component: str = "") -> Value:
        """Run an action."""
        return self._call("action", path, args, component)

    def _call(self, kind: str, path: str, args: Mapping[str, Value] | None, component: str) -> Value:
        return self._backend.call(
            kind, path, args or {}, identity=self._identity, component=component, deadline_s=self._deadline_s
        )

    def subscribe(self, path: str, args: Mapping[str, Value] | None = None) -> Subscription:
        """Watch a query; use it as a context manager."""
        from pytest_convex_evals.grading.subscription import Subscription

        return Subscription(self._backend, path, args or {}, self._identity)

    def request(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | bytes | None = None,
        json: Any = None,
    ) -> SiteResponse:
        """Send a request to the HTTP actions."""
        data = body.encode() if isinstance(body, str) else body
        sent = dict(headers or {})
        if json is not None:
            data = jsonlib.dumps(json).encode()
            sent.setdefault("Content-Type", "application/json")
        place = urlsplit(self._backend.site_url)
        connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port, timeout=self._deadline_s)
        try:
            connection.request(method, path, body=data, headers=sent)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return SiteResponse(response.status, received, response.read())
        except TimeoutError:
            raise AssertionError(f"{method} {path} was not answered within {self._deadline_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            self._backend.prove_alive()
            raise AssertionError(f"{method} {path} was not answered: {error!r}") from None
        finally:
            connection.close()

    # Documents

    def insert(self, table: str, documents: Mapping[str, Value] | Sequence[Mapping[str, Value]]) -> list[str]:
        """Put documents into a table, past the functions but not past the schema; ids in the same order."""
        several = [documents] if isinstance(documents, Mapping) else list(documents)
        return self._backend.insert(table, several)

    def documents(self, table: str) -> list[dict[str, Value]]:
        """All documents of a table, oldest first; system tables too."""
        return self._backend.documents(table)

    def clear(self, table: str) -> None:
        """Remove all documents of a table."""
        self._backend.clear(table)

    # What was deployed, and what happened

    def schema(self) -> dict[str, Any] | None:
        """The schema as the backend exports it; None without one."""
        return self._backend.schema()

    def functions(self) -> list[dict[str, Any]]:
        """The function spec, as `convex function-spec` prints it."""
        return self._backend.functions()

    def crons(self) -> list[CronJob]:
        """The cron jobs."""
        return self._backend.crons()

    def cron_runs(self) -> list[CronRun]:
        """Runs of cron jobs so far, oldest first."""
        return self._backend.cron_runs()

    def scheduled(self) -> list[ScheduledFunction]:
        """Functions that were scheduled, oldest first, with their state."""
        return self._backend.scheduled()

    def logs(self) -> list[str]:
        """Lines that functions logged so far, oldest first."""
        return self._backend.logs()

    def settle(self, *, seconds: float = 20.0) -> None:
        """Wait until everything that was due has run."""
        self._backend.settle(seconds)

    # Expectations

    @contextmanager
    def rejects(self, text: str = "") -> Iterator[list[FunctionError]]:
        """The block must end with the error of a function that is there; the error is in the list afterwards.

        With a text, the error's message or data must contain it.
        """
        caught: list[FunctionError] = []
        try:
            yield caught
        except FunctionError as error:
            caught.append(error)
            if error.not_found:
                raise AssertionError(f"not there, so nothing rejects: {error.message}") from None
            if text and text not in error.message and text not in str(error.data):
                raise AssertionError(f"rejected, but without {text!r}: {error.message}") from None
        else:
            raise AssertionError(f"not rejected{f' with {text!r}' if text else ''}")

    @contextmanager
    def refuses(self, path: str) -> Iterator[None]:
        """The function must not be reachable for this caller."""
        try:
            yield
        except FunctionError as error:
            if not error.not_found:
                raise AssertionError(f"{path} is reachable; it failed by itself: {error.message}") from None
        else:
            raise AssertionError(f"{path} is reachable")

    @contextmanager
    def measure(self) -> Iterator[Cost]:
        """What the functions called inside the block used."""
        before, cost = self._backend.usage(), Cost()
        yield cost
        used = self._backend.usage() - before
        cost.documents_read, cost.bytes_read = used.documents_read, used.bytes_read
        cost.documents_written, cost.functions_scheduled = used.documents_written, used.functions_scheduled
