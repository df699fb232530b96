"""The engine's core as tests use it: the control channel and plain HTTP."""

import json
import urllib.error
import urllib.request
from typing import Any

from .lines import LineProcess
from .toolchain import toolchain


class ControlError(Exception):
    """An error answer of the control channel."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class FunctionError(Exception):
    """A function failed."""

    def __init__(self, message: str, data: Any, log_lines: list[str]) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.log_lines = log_lines

    @property
    def detail(self) -> str:
        """The text after `Server Error` and the newline."""
        return self.message.split("Server Error\n", 1)[-1]


class Response:
    """An HTTP answer with its body read."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    url: str, body: bytes | None = None, headers: dict[str, str] | None = None, method: str | None = None
) -> Response:
    """One HTTP request; every status is an answer."""
    asked = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return Response(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Response(error.code, error.headers, error.read())


class Core:
    """A running core process."""

    def __init__(self, *options: str) -> None:
        tools = toolchain()
        self.lines = LineProcess([tools.node, tools.core, *options])
        self.ready = self.lines.first()["ready"]
        self.url: str = self.ready["url"]
        self.site: str = self.ready["siteUrl"]
        self.key: str = self.ready["adminKey"]

    def control(self, op: str, **params: Any) -> Any:
        answer = self.lines.ask(op=op, params=params)
        if "error" in answer:
            raise ControlError(answer["error"]["code"], answer["error"]["message"])
        return answer["ok"]

    def call(self, path: str, args: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """The whole answer of a call that succeeded; FunctionError when it did not."""
        answer = self.control("call", path=path, args=args or {}, **params)
        if "error" in answer:
            raise FunctionError(answer["error"]["message"], answer["error"].get("data"), answer["logLines"])
        return answer

    def run(self, path: str, args: dict[str, Any] | None = None, **params: Any) -> Any:
        """The value of a call."""
        return self.call(path, args, **params)["value"]

    def fails(self, path: str, args: dict[str, Any] | None = None, **params: Any) -> FunctionError:
        """The error of a call that must fail."""
        try:
            value = self.run(path, args, **params)
        except FunctionError as error:
            return error
        raise AssertionError(f"{path} returned {value!r} instead of failing")

    def post(self, path: str, body: Any, key: str | None = None) -> Response:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Convex {key}"
        return request(self.url + path, json.dumps(body).encode(), headers)

    def close(self) -> int:
        return self.lines.close()
