"""In charge of what a server answered: read up to a bound, and a refusal in the words of its body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import aiohttp

LONGEST = 64_000_000  # bytes of an answer
SHOWN = 300  # characters of a body that is in no form that we know
WORDS = ("detail", "message", "error_description", "title", "error")  # the members that say what is wrong, best first


class ApiError(Exception):
    """What the server answered, or that it did not.

    `status` is None where there was no answer; `code` is that of problems (docs/errors.md), where the server has it.
    """

    def __init__(self, text: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """An answer, read whole."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's value; None of an empty one. Raises `ApiError`."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError(f"{self.method} {self.path}: {self.status}, but the body is no JSON.", self.status) from None

    def checked(self) -> Any:
        """The body's value of an answer that is no refusal. Raises `ApiError` with what the server says."""
        if self.status < 300:
            return self.json
        raise self.error()

    def error(self) -> ApiError:
        """The refusal, in the server's words."""
        text, code = self._error_details()
        return ApiError(f"{self.method} {self.path}: {self.status} {text}".rstrip(), self.status, code)

    def _error_details(self) -> tuple[str, str | None]:
        if 300 <= self.status < 400:
            return f"leads to {self.headers.get('Location', 'another address')}: name that address instead.", None
        text = " ".join(self.body.decode(errors="replace").split())
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            return value if isinstance(value, str) else text[:SHOWN], None
        members = cast("dict[str, Any]", value)
        words = next((members[name] for name in WORDS if isinstance(members.get(name), str)), text[:SHOWN])
        code = members.get("code")
        return words, code if isinstance(code, str) else None


async def read(method: str, path: str, answer: aiohttp.ClientResponse) -> ApiResponse:
    """The whole answer. Raises `ApiError` for one that is longer than `LONGEST`."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > LONGEST:
            answer.close()
            text = f"{method} {path}: the answer is longer than {LONGEST:,} bytes. Ask for less, by $top or $select."
            raise ApiError(text, answer.status)
    return ApiResponse(method, path, answer.status, answer.headers, bytes(body))
