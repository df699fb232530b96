"""The server that graders program: requests that meet, requests that wait, and its end."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_convex_evals.grading.http_fixture import HttpFixture
from tests.support.process_tree import wait_until

FOR_EVER_S = 600.0


@pytest.fixture
def http():
    started = HttpFixture().start()
    yield started
    started.close()


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_requests_that_wait_for_each_other_are_answered_when_they_have_met(http: HttpFixture) -> None:
    http.answer("/meet", body="here", delay=FOR_EVER_S, together=3)
    for number in (1, 2):
        with ThreadPoolExecutor(3) as people:
            assert list(people.map(get, [f"{http.url}/meet"] * 3)) == [(200, b"here")] * 3
        assert len(http.requests) == 3 * number


def test_a_request_that_meets_nobody_is_answered_after_its_delay(http: HttpFixture) -> None:
    http.answer("/meet", body="alone", delay=0.05, together=2)
    assert get(f"{http.url}/meet") == (200, b"alone")


@pytest.mark.parametrize("together", [1, 2])
def test_the_end_lets_nobody_wait(together: int) -> None:
    http = HttpFixture().start()
    http.answer("/slow", body="late", delay=FOR_EVER_S, together=together)
    answers: list[tuple[int, bytes]] = []
    caller = threading.Thread(target=lambda: answers.append(get(f"{http.url}/slow")))
    caller.start()
    wait_until(lambda: http.requests, "the request has arrived")
    http.close()
    caller.join()
    assert answers == [(200, b"late")]


def test_a_path_without_an_answer_is_not_found(http: HttpFixture) -> None:
    assert get(f"{http.url}/other")[0] == 404
    assert [request.path for request in http.requests] == ["/other"]


def test_every_connection_ends_with_its_answer_and_says_so(http: HttpFixture) -> None:
    http.answer("/page", body="here")
    with urllib.request.urlopen(f"{http.url}/page", timeout=60) as answer:
        assert answer.headers["Connection"] == "close"
