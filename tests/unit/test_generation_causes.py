"""From exceptions to causes: by class and status, never by words. litellm runs in one child process."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_convex_evals.generation.causes import RULES

# Every expression makes an exception; the child prints the cause of each.
HEAD = """
import asyncio, json, sys
import httpx, openai, litellm
from litellm import exceptions as e
from pytest_convex_evals.generation.causes import _BY_CLASS, content_filtered, judge
from pytest_convex_evals.generation.wire import Exchange, ErrorInsideError, NotAReplyError

request = httpx.Request("POST", "http://127.0.0.1/v1")
args = {"message": "rate limit 429 timeout", "llm_provider": "openai", "model": "m"}

def reply(status):
    return httpx.Response(status, request=request)

def status_error(status, code=None):
    body = {"message": "said", "code": code}
    try:
        reply(status).raise_for_status()
    except httpx.HTTPStatusError as inner:
        try:
            raise openai.APIStatusError("said", response=reply(status), body=body) from inner
        except openai.APIStatusError as outer:
            return outer


def seen(error, status=None, **told):
    # The same exception, with what went over the wire.
    exchange = Exchange(status=status)
    exchange.facts.error = told or None
    return error, exchange

def chained(*errors):
    for outer, inner in zip(errors, errors[1:]):
        outer.__cause__ = inner
    return errors[0]

def in_context(outer, inner):
    try:
        try:
            raise inner
        except Exception:
            raise outer
    except Exception as error:
        return error
"""

ROWS = {
    "ContextWindowExceededError": ("e.ContextWindowExceededError(**args)", "context_window"),
    "RateLimitError": ("e.RateLimitError(**args)", "rate_limited"),
    "AuthenticationError": ("e.AuthenticationError(**args)", "authentication"),
    "PermissionDeniedError": ("e.PermissionDeniedError(**args, response=reply(403))", "authentication"),
    "NotFoundError": ("e.NotFoundError(**args)", "unknown_model"),
    "Timeout": ("e.Timeout(**args)", "provider_timeout"),
    "ServiceUnavailableError": ("e.ServiceUnavailableError(**args)", "provider_unavailable"),
    "BadGatewayError": ("e.BadGatewayError(**args)", "provider_unavailable"),
    "InternalServerError": ("e.InternalServerError(**args)", "provider_unavailable"),
    "APIConnectionError": ("e.APIConnectionError(**args)", "provider_connection"),
    "UnsupportedParamsError": ("e.UnsupportedParamsError(**args)", "bad_request"),
    "BadRequestError": ("e.BadRequestError(**args)", "bad_request"),
    "UnprocessableEntityError": ("e.UnprocessableEntityError(**args, response=reply(422))", "bad_request"),
    "APIResponseValidationError": ("e.APIResponseValidationError(**args)", "provider_reply"),
    "JSONSchemaValidationError": (
        "e.JSONSchemaValidationError(model='m', llm_provider='x', raw_response='{', schema='{}')",
        "provider_reply",
    ),
    "APIError": ("e.APIError(status_code=529, **args)", "provider_unavailable"),
}
MORE = {
    "a permission that is only a status": ("e.APIError(status_code=403, **args)", "authentication"),
    "an empty purse": ("e.APIError(status_code=402, **args)", "authentication"),
    "a conflict": ("e.APIError(status_code=409, **args)", "bad_request"),
    "words about a rate limit in a bad request": (
        "chained(e.RateLimitError(**args), status_error(400))",
        "bad_request",
    ),
    "a wrong key called a bad request": ("chained(e.BadRequestError(**args), status_error(401))", "authentication"),
    "a wrong key with the status of a bad request": (
        "chained(e.AuthenticationError(**args), status_error(400))",
        "authentication",
    ),
    "a prompt that is too long": ("chained(e.ContextWindowExceededError(**args), status_error(400))", "context_window"),
    "words about a key in a server error": (
        "chained(e.AuthenticationError(**args), status_error(503))",
        "provider_unavailable",
    ),
    "a real rate limit": ("chained(e.RateLimitError(**args), status_error(429))", "rate_limited"),
    "a wrapped rate limit": ("chained(RuntimeError('stream ended'), e.RateLimitError(**args))", "rate_limited"),
    "a rate limit wrapped twice": (
        "chained(ValueError('x'), RuntimeError('y'), e.RateLimitError(**args))",
        "rate_limited",
    ),
    "a rate limit in the context": ("in_context(ValueError('bad chunk'), e.RateLimitError(**args))", "rate_limited"),
    "a server error that was none": ("chained(e.InternalServerError(**args), ValueError('no JSON'))", "provider_reply"),
    "a connection behind a server error": (
        "chained(e.InternalServerError(**args), openai.APIConnectionError(request=request))",
        "provider_connection",
    ),
    "a timeout behind a server error": (
        "chained(e.InternalServerError(**args), openai.APITimeoutError(request))",
        "provider_timeout",
    ),
    "a real server error": ("chained(e.InternalServerError(**args), status_error(500))", "provider_unavailable"),
    "a plain timeout": ("TimeoutError()", "provider_timeout"),
    "a timeout of asyncio": ("asyncio.TimeoutError()", "provider_timeout"),
    "a plain connection": ("ConnectionResetError('429')", "provider_connection"),
    "no JSON": ("json.JSONDecodeError('x', 'y', 0)", "provider_reply"),
    "a missing key": ("KeyError('choices')", "provider_reply"),
    "a module that is not installed": ("ModuleNotFoundError('mcp')", "generation_child"),
    "a missing module behind a server error": (
        "in_context(e.InternalServerError(**args), ModuleNotFoundError('mcp'))",
        "generation_child",
    ),
    "anything else": ("RuntimeError('rate limit exceeded')", "generation_child"),
    "half a character": ("RuntimeError('\\ud83d')", "generation_child"),
}
SEEN = {
    "the status of the wire beats the class": ("seen(e.RateLimitError(**args), 400)", "bad_request"),
    "a rate limit wrapped by a stream": ("seen(RuntimeError('x'), 429)", "rate_limited"),
    "no credit with the status of a rate limit": (
        "seen(e.RateLimitError(**args), 429, code='insufficient_quota')",
        "authentication",
    ),
    "a prompt that is too long by its code": (
        "seen(e.BadRequestError(**args), 400, code='context_length_exceeded')",
        "context_window",
    ),
    "a filter by its code": ("seen(e.BadRequestError(**args), 400, code='content_filter')", "refused"),
    "an error with a number inside a success": (
        "seen(ErrorInsideError('x'), 200, code=529, type='server_error')",
        "provider_unavailable",
    ),
    "an error with a number in letters": ("seen(ErrorInsideError('x'), 200, code='429')", "rate_limited"),
    "an error of Anthropic's stream": (
        "seen(e.MidStreamFallbackError(**args), 200, type='overloaded_error')",
        "provider_unavailable",
    ),
    "a wrong key inside a success": ("seen(ErrorInsideError('x'), 200, type='authentication_error')", "authentication"),
    "an error that nobody knows": (
        "seen(ErrorInsideError('x'), 200, message='429 rate limit')",
        "provider_unavailable",
    ),
    "HTML": (
        "seen(chained(openai.APIConnectionError(request=request), NotAReplyError('<html>')), 200)",
        "provider_reply",
    ),
    "a server error in a stream": ("seen(e.APIConnectionError(**args), 503)", "provider_unavailable"),
    "a connection that broke in mid-stream": (
        "seen(chained(e.MidStreamFallbackError(**args), e.APIConnectionError(**args), httpx.ReadError('x')), 200)",
        "provider_connection",
    ),
    "a timeout in mid-stream": (
        "seen(chained(e.MidStreamFallbackError(**args), e.APIConnectionError(**args), httpx.ReadTimeout('x')), 200)",
        "provider_timeout",
    ),
}
FILTERED = {
    "litellm's class": ("e.ContentPolicyViolationError(**args)", True),
    "wrapped": ("chained(RuntimeError('x'), e.ContentPolicyViolationError(**args))", True),
    "OpenAI's code": ("chained(e.BadRequestError(**args), status_error(400, 'content_policy_violation'))", True),
    "Azure's code": ("chained(e.BadRequestError(**args), status_error(400, 'content_filter'))", True),
    "only words": ("e.BadRequestError(message='content filter', llm_provider='x', model='m')", False),
    "another code": ("chained(e.BadRequestError(**args), status_error(400, 'invalid'))", False),
}


@pytest.fixture(scope="module")
def told():
    """What the child says about every expression."""
    expressions = [text for table in (ROWS, MORE, SEEN, FILTERED) for text, _ in table.values()]
    program = textwrap.dedent(HEAD) + textwrap.dedent(f"""
        told = {{}}
        for text in {expressions!r}:
            error = eval(text)
            error, exchange = error if isinstance(error, tuple) else (error, None)
            fault = judge(error, exchange)
            shown = [fault.cause, fault.reason, fault.rule.remedy]
            told[text] = [shown, content_filtered(error)]
        names = [row[0] for row in _BY_CLASS]
        print(json.dumps([told, names, [name for name in names if not hasattr(e, name)]]))
    """)
    environment = os.environ | {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_row_of_the_table_has_a_case_and_a_class(told):
    assert told[1] == list(ROWS)
    assert told[2] == []


@pytest.mark.parametrize(("expression", "cause"), (ROWS | MORE | SEEN).values(), ids=(ROWS | MORE | SEEN).keys())
def test_each_exception_has_its_cause(expression, cause, told):
    (found, reason, remedy), filtered = told[0][expression]
    assert (found, filtered) == (cause, False)
    assert reason
    assert remedy or cause == "refused"


def test_the_table_of_the_reference_is_the_table_of_the_program():
    page = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `(failed|error)` \| `(\w+)` \| (yes|no) \| (yes|no) \|$", page, re.MULTILINE)
    words = {True: "yes", False: "no"}
    assert {cause: (outcome, retried, stops) for outcome, cause, retried, stops in rows} == {
        cause: (rule.outcome, words[rule.retried], words[rule.stops_model]) for cause, rule in RULES.items()
    }
    assert len(rows) == len(RULES)


@pytest.mark.parametrize(("expression", "filtered"), FILTERED.values(), ids=FILTERED.keys())
def test_a_content_filter_is_recognised_by_class_or_code(expression, filtered, told):
    assert told[0][expression][1] is filtered
