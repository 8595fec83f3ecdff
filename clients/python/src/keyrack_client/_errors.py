"""Errors that the clients raise. `errors_by_code` has a subclass for each code of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeGuard

LONGEST_REASONS = 5  # reasons in the text of an error


class KeyrackError(Exception):
    """The base class of all errors of this package."""


class NoAnswer(KeyrackError):
    """No response arrived in any attempt.

    A write may have been applied. Repeat it with the same `key`: the server applies it at most once.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        self.key = key
        super().__init__(message)


class ApiError(KeyrackError):
    """An error response of the server.

    `code` is for programs and empty if the response has none, for example because a proxy wrote it. `resource_id` is
    the id of the conflicting resource, such as the one with the same `externalId`. `conflicts` are the overlapping
    bookings.
    """

    by_code: ClassVar[dict[str, type[ApiError]]] = {}
    by_status: ClassVar[dict[int, type[ApiError]]] = {}

    def __init_subclass__(cls, *, code: str = "", status: int = 0) -> None:
        if code:
            ApiError.by_code[code] = cls
        if status:
            ApiError.by_status[status] = cls

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        request_id: str | None = None,
        *,
        retry_after: float | None = None,
        key: str | None = None,
    ) -> None:
        self.status = status
        self.problem = dict(problem)
        self.code: str = text_of(problem, "code")
        self.detail: str = next(
            (text for name in ("detail", "message", "error_description", "error") if (text := text_of(problem, name))),
            "",
        )
        self.errors = objects_of(problem, "errors")
        self.conflicts = objects_of(problem, "conflicts")
        id = problem.get("id")
        self.resource_id: int | None = id if isinstance(id, int) else None
        self.request_id = request_id
        self.retry_after = retry_after
        self.key = key
        parts = (str(status), self.code and f"{self.code}:", self.detail, *self._reasons())
        super().__init__(" ".join(part for part in parts if part))

    def _reasons(self) -> list[str]:
        """The reasons in `errors` that the detail does not contain."""
        reasons = (text_of(error, "detail") for error in self.errors)
        return [reason for reason in dict.fromkeys(reasons) if reason not in self.detail][:LONGEST_REASONS]

    @staticmethod
    def make(
        status: int,
        problem: Mapping[str, Any],
        request_id: str | None,
        *,
        retry_after: float | None = None,
        key: str | None = None,
    ) -> ApiError:
        """Return an error of the class of its code, or else of its status."""
        by_status = ServerError if status >= 500 else ApiError.by_status.get(status, ApiError)
        kind = ApiError.by_code.get(text_of(problem, "code"), by_status)
        return kind(status, problem, request_id, retry_after=retry_after, key=key)


def objects_of(problem: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list, or nothing if a proxy wrote something else."""
    value: Any = problem.get(name)
    return [row for row in value if isinstance(row, dict)] if is_list(value) else []


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list. mypy and pyright narrow `isinstance` to different types."""
    return isinstance(value, list)


def text_of(problem: Mapping[str, Any], name: str) -> str:
    value = problem.get(name)
    return value if isinstance(value, str) else ""


class BadRequest(ApiError, status=400):
    """400: the request is not valid. `errors` names each property."""


class Unauthorized(ApiError, status=401):
    """401: the API key, the credentials or the token are not valid."""


class Forbidden(ApiError, status=403):
    """403: the client lacks a permission or a scope."""


class NotFound(ApiError, status=404):
    """404: the customer has nothing with this id."""


class Conflict(ApiError, status=409):
    """409: the state of a resource does not allow the request."""


class TooManyRequests(ApiError, status=429):
    """429: a rate limit. The client has retried already, unless the wait was too long."""


class ServerError(ApiError):
    """500 and above: the server failed, also after retries."""


class OutcomeFailed(KeyrackError):
    """The server accepted an operation and could not apply it.

    `operation` is its final state, `code` its error code, and `conflicts` are the overlapping bookings. A retry with
    the same `key` returns the same outcome.
    """

    def __init__(self, operation: Mapping[str, Any]) -> None:
        self.operation = dict(operation)
        self.code: str = text_of(operation, "errorCode")
        self.detail: str = text_of(operation, "errorMessage")
        self.conflicts = objects_of(operation, "conflicts")
        super().__init__(f"{self.code}: {self.detail}")


class OutcomePending(KeyrackError):
    """An operation was still pending at the end of the wait.

    The server applies it later. `operations.wait(error.operation_id)` continues the wait.
    """

    def __init__(self, operation_id: str, waited: float) -> None:
        self.operation_id = operation_id
        super().__init__(f"Operation {operation_id} is still pending after {waited:g} s.")


class StartOver(KeyrackError):
    """The change log cannot be continued from the given position.

    The server was restored from a backup, or the changes have expired. Read all resources again, then continue from
    `position`, which is the newest change at the time of the error.
    """

    def __init__(self, epoch: str | None, newest: int, reason: str) -> None:
        self.epoch = epoch
        self.newest = newest
        super().__init__(reason)

    @property
    def position(self) -> str:
        return f"{self.epoch or ''}:{self.newest}"


class InvalidSignature(KeyrackError):
    """The signature of a webhook message is invalid, or the message too old."""
