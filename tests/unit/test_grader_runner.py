"""Running a grader.py: every check is recorded, and a grader that cannot be used is our trouble."""

import sys
import textwrap
import time
from unittest.mock import Mock

import pytest

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading import grader as runner
from pytest_convex_evals.grading.deadline import run_all_with_deadline
from pytest_convex_evals.grading.grader import run_checks
from pytest_convex_evals.grading.loading import GraderLoader
from pytest_convex_evals.records import Errored, Failed, Passed

PROVIDERS = {"files": lambda: {"convex/a.ts": "export {};\n"}, "sources": lambda: ["parsed"]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "suite" / "grader.py"


@pytest.fixture(params=[False, True], ids=["compiled on disk", "compiled in memory"])
def run(path, request, monkeypatch):
    """Runs a grader as the plugin does."""
    monkeypatch.setattr(sys, "dont_write_bytecode", request.param)
    loader = GraderLoader(request.config)
    path.parent.mkdir()

    def run(text, providers=PROVIDERS, extra_s=0.0):
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return run_checks(path, loader, providers, extra_s=extra_s)

    return run


def test_checks_run_in_the_order_of_the_grader_with_arguments_by_name(run):
    checks = run("""
        def helper(): raise AssertionError
        def test_b(sources, files):
            assert files["convex/a.ts"] and sources == ["parsed"]
        def test_a(files, limit=3):
            assert limit == 3
        def test_c():
            pass
    """)
    assert [check.name for check in checks] == ["test_b", "test_a", "test_c"]
    assert [check.verdict for check in checks] == [Passed()] * 3
    assert all(check.duration_s >= 0 and check.detail == "" for check in checks)


def test_a_failed_assertion_has_the_message_that_pytest_writes(run, path):
    (check,) = run("""
        def test_kind(files):
            kinds = {"list": "query"}
            assert kinds["list"] == "mutation", "list must write"
    """)
    assert check.verdict == Failed(
        cause="checks",
        reason="list must write\nassert 'query' == 'mutation'\n  \n  - mutation\n  + query",
    )
    assert check.detail == (
        "grader.py:4: in test_kind\n"
        '    assert kinds["list"] == "mutation", "list must write"\n'
        "E   AssertionError: list must write\n"
        "E   assert 'query' == 'mutation'\n"
        "E     \n"
        "E     - mutation\n"
        "E     + query"
    )


def test_values_of_calls_and_attributes_are_shown(run):
    (check,) = run("""
        def double(n): return 2 * n
        def test_double():
            assert double(4) == 9
    """)
    assert check.verdict.reason == "assert 8 == 9\n +  where 8 = double(4)"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("raise ValueError('no such table')", "ValueError: no such table"),
        ("{}['missing']", "KeyError: 'missing'"),
        ("assert False", "assert False"),
        ("raise AssertionError", "AssertionError"),
        ("import pytest; pytest.fail('on purpose')", "Failed: on purpose"),
    ],
)
def test_any_exception_in_a_check_is_the_submissions_failure(statement, reason, run):
    (check,) = run(f"def test_x():\n    {statement}\n")
    assert check.verdict == Failed(cause="checks", reason=reason)


def test_a_failed_check_does_not_disturb_the_others(run):
    checks = run("""
        def test_a(files):
            files["convex/a.ts"] = "changed"
            assert False
        def test_b(files):
            assert files["convex/a.ts"] == "export {};\\n"
    """)
    assert [check.verdict.outcome for check in checks] == ["failed", "passed"]


def test_detail_names_no_place_of_the_machine_outside_the_suite(run, tmp_path):
    checks = run("""
        import json
        def deeper(text):
            return json.loads(text)
        def test_deep():
            deeper("{")
        def test_chain():
            try:
                deeper("{")
            except ValueError as error:
                raise AssertionError("chained") from error
    """)
    for check in checks:
        assert str(tmp_path) not in check.detail + check.verdict.reason
        assert "/json/" not in check.detail
    assert checks[0].detail.startswith('grader.py:6: in test_deep\n    deeper("{")\ngrader.py:4: in deeper\n')


def test_long_messages_are_cut_with_a_note(run):
    (check,) = run("def test_x():\n    raise ValueError('x' * 50_000)\n")
    assert len(check.verdict.reason) < 2_100
    assert check.verdict.reason.endswith("more characters)")
    assert len(check.detail) < 8_100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "import no_such_module_anywhere\n",
            "does not import: ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        ),
        ("def test_x(:\n    pass\n", "does not import: "),
        ("raise ValueError('early')\n", "does not import: ValueError: early"),
        ("import sys; sys.exit(3)\n", "does not import: SystemExit: 3"),
        ("raise KeyboardInterrupt\n", "does not import: KeyboardInterrupt"),
        ("import pytest; pytest.skip('x', allow_module_level=True)\n", "does not import: Skipped: x"),
        ("", "has no test function"),
        ("def check_x(): pass\n", "has no test function"),
        ("from os.path import join as test_join\n", "has no test function"),
        ("class TestX:\n    def test_a(self): pass\ndef test_b(): pass\n", "TestX is a class"),
        ("def test_x(filez): pass\n", "test_x asks for 'filez'"),
        ("def test_x(*args): pass\n", "test_x asks for 'args'"),
        ("async def test_x(): pass\n", "test_x is not a plain function"),
        ("def test_x():\n    yield 1\n", "test_x is not a plain function"),
        ("async def test_x():\n    yield 1\n", "test_x is not a plain function"),
    ],
)
def test_a_grader_that_cannot_be_used_is_our_trouble(text, problem, run, path):
    with pytest.raises(Trouble) as caught:
        run(text)
    assert caught.value.cause == "grader"
    assert str(path) in caught.value.reason
    assert problem in caught.value.reason
    assert caught.value.remedy


def test_an_unknown_argument_says_what_there_is(run):
    with pytest.raises(Trouble) as caught:
        run("def test_x(filez): pass\n")
    assert caught.value.remedy == "there is: files, sources"


def test_a_grader_is_checked_as_a_whole_before_any_check_runs(run, path):
    with pytest.raises(Trouble):
        run(f"""
            def test_a():
                open({str(path.with_name("ran"))!r}, "w").close()
            def test_b(nothing): pass
        """)
    assert not path.with_name("ran").exists()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("import sys; sys.exit(3)", "test_x ended with SystemExit: 3"),
        ("raise KeyboardInterrupt('x')", "test_x ended with KeyboardInterrupt: x"),
        ("import pytest; pytest.skip('not today')", "test_x ended with Skipped: not today"),
    ],
)
def test_a_check_that_skips_or_exits_is_a_broken_grader(statement, said, run):
    (check,) = run(f"def test_x():\n    {statement}\n")
    remedy = "a check passes or fails; it neither skips nor exits"
    assert check.verdict == Errored(cause="grader", reason=said, remedy=remedy)


def test_trouble_in_a_check_is_an_error_with_its_cause(run):
    checks = run("""
        from pytest_convex_evals.errors import Trouble
        def test_a():
            raise Trouble("toolchain", "it died", remedy="again")
        def test_b():
            pass
    """)
    assert checks[0].verdict == Errored(cause="toolchain", reason="it died", remedy="again")
    assert checks[1].verdict == Passed()


def test_trouble_while_an_argument_is_made_is_an_error(run):
    def broken():
        raise Trouble("toolchain", "it died", remedy="again")

    (check,) = run("def test_a(files): pass\n", {"files": broken})
    assert check.verdict == Errored(cause="toolchain", reason="it died", remedy="again")


def test_an_argument_that_we_cannot_make_is_never_the_submissions_fault(run):
    def broken():
        raise KeyError("functions")

    (check,) = run("def test_a(files): pass\n", {"files": broken})
    assert check.verdict == Errored(
        cause="internal",
        reason="the argument files could not be made: KeyError: 'functions'",
        remedy="please report it",
    )


@pytest.mark.parametrize(
    "loop",
    [
        "while True: pass",
        "__import__('threading').Event().wait(0.01)\n    while True: __import__('time').sleep(0.01)",
        "while True:\n        try: __import__('time').sleep(0.01)\n        except Exception: pass",
    ],
)
def test_a_check_that_does_not_end_is_an_error_and_the_next_one_runs(loop, run, monkeypatch):
    monkeypatch.setattr(runner, "CHECK_S", 0.2)
    checks = run(f"def test_loop():\n    {loop}\ndef test_next(files):\n    assert files\n", extra_s=0.1)
    assert checks[0].verdict == Errored(
        cause="grader_timeout",
        reason="test_loop did not end within 0 s",
        remedy="give the check a deadline of its own",
    )
    assert checks[1].verdict == Passed()


def test_checks_after_one_that_does_not_end_have_their_whole_time_each(run, monkeypatch):
    """Also those that come after one that does not even listen."""
    monkeypatch.setattr(runner, "CHECK_S", 0.5)
    slow = "    __import__('time').sleep(0.3)\n"
    deaf = "    while True:\n        try: __import__('time').sleep(10)\n        except BaseException: pass\n"
    monkeypatch.setattr("pytest_convex_evals.grading.deadline._GRACE_S", 0.1)
    checks = run(
        f"def test_a():\n{slow}def test_b():\n{slow}    assert False\ndef test_c():\n{deaf}"
        f"def test_d():\n{slow}def test_e():\n    while True: pass\ndef test_f(): pass\n"
    )
    found = [(check.name, type(check.verdict).__name__) for check in checks]
    passed, failed, late = "Passed", "Failed", "Errored"
    kinds = [passed, failed, late, passed, late, passed]
    assert found == [(f"test_{name}", kind) for name, kind in zip("abcdef", kinds, strict=True)]
    assert [round(check.duration_s, 1) for check in checks[:2]] == [0.3, 0.3]


def test_an_interrupted_run_begins_no_more_checks(run, monkeypatch):
    """The interrupt reaches the thread that waits, not the one that runs the checks."""
    began = []
    monkeypatch.setattr("threading.Thread.join", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_all_with_deadline([lambda: (began.append(1), time.sleep(0.2)), lambda: began.append(2)], 60)
    time.sleep(0.5)
    assert began == [1]


def test_an_import_that_does_not_end_is_our_trouble(run, monkeypatch):
    monkeypatch.setattr(runner, "CHECK_S", 0.2)
    with pytest.raises(Trouble) as caught:
        run("import time\nwhile True:\n    time.sleep(0.01)\n")
    assert caught.value.cause == "grader_timeout"
    assert caught.value.remedy == "let a grader do its work in functions, not at import"


def test_graders_do_not_see_each_other(run, path, request):
    run("STATE = 1\ndef test_a(): pass\n")
    other = path.with_name("other") / "grader.py"
    other.parent.mkdir()
    other.write_text("def test_b():\n    assert 'STATE' not in globals()\n", encoding="utf-8")
    (check,) = run_checks(other, request.config.pluginmanager.rewrite_hook, PROVIDERS, extra_s=0)
    assert (check.name, check.verdict) == ("test_b", Passed())
    import sys

    assert not [name for name in sys.modules if name.startswith("convex_evals_grader")]


def test_a_grader_that_is_loaded_again_begins_anew_and_one_that_changed_is_read_again(run):
    counts = """
        seen = []
        def test_first():
            seen.append(1)
            assert len(seen) == 1
    """
    for _ in range(3):
        (check,) = run(counts)
        assert check.verdict == Passed()
    (check,) = run(counts.replace("== 1", "== 2"))
    assert isinstance(check.verdict, Failed)


def test_a_grader_is_compiled_once_where_pytest_may_keep_nothing(path, request, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path.parent.mkdir()
    path.write_text("def test_a():\n    assert True\n", encoding="utf-8")
    loader, compiled = GraderLoader(request.config), []
    real = compile
    monkeypatch.setattr("builtins.compile", lambda *args, **more: compiled.append(args) or real(*args, **more))
    for _ in range(3):
        run_checks(path, loader, {}, extra_s=0.0)
    assert len([args for args in compiled if args[2] == "exec" and not isinstance(args[0], bytes)]) == 1
