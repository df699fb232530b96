"""The hooks of the controller, registered only when there are evals."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_convex_evals.activation import WORKER_INPUT, WORKER_LOOP
from pytest_convex_evals.cells import parse_node_id
from pytest_convex_evals.workers import Workers

if TYPE_CHECKING:
    from pytest_convex_evals.controller import Controller
    from pytest_convex_evals.live import LiveView, PlainLines

_RECORD = "evals_record"
_CRASHED = "evals_crashed"


class ControllerHooks:
    """Hands every event over to the controller."""

    def __init__(self, controller: Controller, config: pytest.Config) -> None:
        self._controller = controller
        self._config = config
        self._ended = False
        self._view: LiveView | PlainLines | None = None
        self._workers = Workers()
        self._open: dict[str, pytest.TestReport] = {}
        """The last report of each cell that has a verdict and is not torn down."""

    def say_through(self, config: pytest.Config) -> None:
        """Progress goes where pytest writes."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and config.get_verbosity() >= 0:

            def say(line: str) -> None:
                reporter.ensure_newline()
                if getattr(reporter._tw, "_current_line", ""):  # what xdist writes over and over
                    reporter._tw.line()
                reporter.write_line(line)

            self._controller.say = say
        from pytest_convex_evals.confirmation import consent_of

        prepared = self._controller.prepared
        self._controller.consent = consent_of(config, prepared.plan.settings, prepared.environment)

    def _show(self, config: pytest.Config) -> None:
        """Progress while cells run: a view on a terminal, a line now and then elsewhere."""
        from pytest_convex_evals.live import LiveView, PlainLines, can_draw
        from pytest_convex_evals.progress import plain_line, view_lines
        from pytest_convex_evals.session import statuses
        from pytest_convex_evals.worker_status import read_statuses

        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self._view is not None or not self._controller.planned:
            return
        look, folder = self._controller.monitor.look, statuses(self._controller.plan.folder())
        if can_draw(config, reporter):
            self._view = LiveView(reporter._tw, lambda width: view_lines(look(), read_statuses(folder), width))
        elif self._controller.monitor.asked and config.get_verbosity() >= 0:
            self._view = PlainLines(self._controller.say, lambda: plain_line(look()))

    def _hide(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker starts: hand it the plan."""
        self._workers.add(node)
        node.workerinput[WORKER_INPUT] = self._controller.plan.as_json()
        node.workerinput[WORKER_LOOP] = node.config.getoption("dist") == "load"

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Cells are handed out in our order, unless another way of distribution was asked for."""
        if config.getoption("dist") != "load":
            return None
        from pytest_convex_evals.handout import HandOut

        return HandOut(config, log, lambda: self._controller.readiness if self._controller.planned else None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """A worker has collected: the cells are known."""
        self.say_through(node.config)
        if not self._controller.planned and any(parse_node_id(node_id) for node_id in ids):
            for line in self._controller.header_lines():
                self._controller.say(line)
            self._controller.start(ids, len(node.config.getoption("tx") or [None]))
            self._show(node.config)

    def pytest_report_collectionfinish(self, config: pytest.Config, items: list[pytest.Item]) -> list[str]:
        """The header, once an eval was collected."""
        ours = any(parse_node_id(item.nodeid) for item in items)
        return self._controller.header_lines() if ours and config.get_verbosity() >= 0 else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Without workers the cells are known when the loop begins, unless pytest will refuse to enter it."""
        option = session.config.option
        if option.collectonly or (session.testsfailed and not option.continue_on_collection_errors):
            return None
        node_ids = [item.nodeid for item in session.items]
        if not any(parse_node_id(node_id) for node_id in node_ids):
            return None
        self.say_through(session.config)
        self._controller.start(node_ids, 0)
        self._show(session.config)
        readiness = self._controller.readiness
        if readiness is None or not self._controller.monitor.asked:
            return None
        from pytest_convex_evals.loops import run_ready

        return run_ready(session, readiness)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """A verdict arrives, before anybody else sees the report."""
        text = getattr(report, _RECORD, None)
        if text is not None:
            from pytest_convex_evals.records import CellRecord

            # First, because an interrupt may strike while the journal is flushed.
            self._open[report.nodeid] = report
            self._controller.add(report.nodeid, CellRecord.model_validate_json(text))
            # pytest keeps every report until the end; the journal has the record.
            delattr(report, _RECORD)
        result = yield
        if report.when == "teardown":
            self._open.pop(report.nodeid, None)
            self._controller.torn_down(report.nodeid)
        elif report.nodeid in self._controller.records:
            self._open[report.nodeid] = report
        if getattr(report, _CRASHED, False):
            self._complete(report)
        if report.nodeid in self._controller.planned:
            # Everybody has seen the report; pytest keeps it, and three per cell add up.
            report.user_properties = []
            if report.passed:
                report.keywords = {}
        return result

    def _complete(self, last: pytest.TestReport) -> None:
        """Send what a worker owes that ended too early: JUnit has no properties before the teardown."""
        self._complete_call(last)
        self._config.hook.pytest_runtest_logreport(report=self._owed(last, "teardown"))

    def _complete_call(self, last: pytest.TestReport) -> None:
        if last.when == "setup" and self._controller.records[last.nodeid].verdict.outcome != "error":
            self._config.hook.pytest_runtest_logreport(report=self._owed(last, "call"))

    def _owed(self, last: Any, when: Literal["call", "teardown"]) -> pytest.TestReport:
        from pytest_convex_evals.rendering import junit_properties, verdict_text

        record = self._controller.records[last.nodeid]
        failed = when == "call" and record.verdict.outcome == "failed"
        report = pytest.TestReport(
            nodeid=last.nodeid,
            location=last.location,
            keywords={},
            outcome="failed" if failed else "passed",
            longrepr=verdict_text(record, record.folder) if failed else None,
            when=when,
            user_properties=junit_properties(record),
        )
        if hasattr(last, "node"):
            report.node = last.node  # type: ignore[attr-defined]
        return report

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:  # noqa: ARG002
        """A worker died with a cell in its hands."""
        if crashitem in self._controller.records:
            # The verdict stands; this report takes the place of the teardown that the worker owes.
            if crashitem in self._open:
                self._complete_call(self._open[crashitem])
            owed = self._owed(report, "teardown")
            report.when, report.outcome, report.longrepr = owed.when, owed.outcome, owed.longrepr
            report.user_properties = owed.user_properties
            return
        record = self._controller.crashed(crashitem, str(report.longrepr))
        if record is not None:
            from pytest_convex_evals.rendering import verdict_text

            setattr(report, _RECORD, record.model_dump_json())
            setattr(report, _CRASHED, True)
            report.when = "setup"
            report.longrepr = verdict_text(record, "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any, config: pytest.Config) -> tuple[str, str, Any] | None:
        """Verbose lines say how many checks passed."""
        record = self._controller.records.get(report.nodeid)
        if record is None or config.get_verbosity() <= 0 or self._ended:
            return None
        from pytest_convex_evals.rendering import status_word

        if report.when == "call":
            markup = {"green" if report.passed else "red": True}
            return report.outcome, "." if report.passed else "F", (status_word(record), markup)
        if report.when == "setup" and report.failed:
            return "error", "E", (status_word(record), {"red": True})
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Everybody hears of it before anybody is waited for.

        Nobody wants to wait for the sources of a long traceback either, of which pytest shows the last line.
        """
        self._workers.tell_to_end()
        self._controller.interrupted()
        self._hide()
        visible = excinfo.traceback.filter(excinfo)
        if visible and not self._config.getoption("fulltrace", False):
            excinfo.traceback = visible[-1:]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """The run ends; a verdict that is not in the journal is not a success."""
        for last in [one for one in self._open.values() if one.nodeid in self._controller.records]:
            self._complete(last)
        self._ended = True
        self._hide()
        self._controller.finish(int(exitstatus))
        self._workers.hurry()
        nothing_left = self._controller.plan.mode != "new" and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if exitstatus == pytest.ExitCode.OK or nothing_left:
            unhappy = self._controller.unhappy
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if unhappy else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What happened, and what to run next."""
        if not self._controller.planned and self._controller.plan.mode == "new":
            return
        terminalreporter.section("convex evals")
        for line in self._controller.summary():
            terminalreporter.write_line(line)
