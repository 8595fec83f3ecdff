"""Responses of a server: bounded reading, and errors in the server's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import aiohttp

LONGEST = 64_000_000  # bytes of a response
SHOWN = 300  # characters of a body in an unknown format
WORDS = ("detail", "message", "error_description", "title", "error")  # the members that describe an error, best first


class ApiError(Exception):
    """An error response, or a missing response.

    `status` is None without a response. `code` is the error code of the server (docs/errors.md), if it sends one.
    """

    def __init__(self, text: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response, read completely."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The value of the body; None for an empty one. Raises `ApiError`."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError(
                f"{self.method} {self.path}: {self.status}, but the body is not JSON.", self.status
            ) from None

    def checked(self) -> Any:
        """The value of the body. Raises `ApiError` for an error response."""
        if self.status < 300:
            return self.json
        raise self.error()

    def error(self) -> ApiError:
        """The error of the response, in the server's words."""
        text, code = self._error_details()
        return ApiError(f"{self.method} {self.path}: {self.status} {text}".rstrip(), self.status, code)

    def _error_details(self) -> tuple[str, str | None]:
        if 300 <= self.status < 400:
            return f"redirects to {self.headers.get('Location', 'another address')}. Use that address instead.", None
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
    """Read a response. Raises `ApiError` if it is longer than `LONGEST`."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > LONGEST:
            answer.close()
            text = f"{method} {path}: the response is longer than {LONGEST:,} bytes. Request less with $top or $select."
            raise ApiError(text, answer.status)
    return ApiResponse(method, path, answer.status, answer.headers, bytes(body))
