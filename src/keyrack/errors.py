"""In charge of refusals: every answer that is not what the caller asked for, and the body its status has.

A refusal is raised new each time; its text is a constant that stands beside the code that raises it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from asyncpg import IntegrityConstraintViolationError

PLAIN_TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

INVALID_KEY = (
    "Access denied due to invalid subscription key. Make sure to provide a valid key for an active subscription."
)
INVALID_TOKEN = "Unauthorized. Access token is missing or invalid."  # noqa: S105 - a message
INVALID_DEVICE_KEY = "Access denied due to invalid device key."
NO_SCOPE = "The device key does not have the scope {scope}."
NO_MANAGER = "Unable to find a manager for the given OAuth ID claim data."
NO_CUSTOMER = "Unable to find a customer for the given Customer-ID."
INTERNAL_ERROR = "Internal server error."


class Refusal(Exception):
    """An answer with an error status; `text` is its message (spec, "Errors": plain text unless said otherwise)."""

    status: ClassVar[int]
    media_type: ClassVar[str] = PLAIN_TEXT

    def __init__(self, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The body of the answer, encoded as `media_type` says."""
        return self.text.encode()


class BadRequest(Refusal):
    status = 400


CHALLENGE = {"WWW-Authenticate": 'Bearer realm="keyrack"'}  # RFC 9110, section 15.5.2: every 401 has one


class Unauthorized(Refusal):
    """401 with the spec's JSON body."""

    status = 401
    media_type = JSON

    def __init__(self, text: str) -> None:
        super().__init__(text, CHALLENGE)

    def body(self) -> bytes:
        return json.dumps({"statusCode": 401, "message": self.text}).encode()


class GrantRefused(Refusal):
    """A refused token request: the members of RFC 6749, section 5.2; with 401 also the spec's own two."""

    status = 400
    media_type = JSON

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text, {"Cache-Control": "no-store"})
        self.error = error

    def members(self) -> dict[str, object]:
        return {"error": self.error, "error_description": self.text}

    def body(self) -> bytes:
        return json.dumps(self.members()).encode()


class WrongCredentials(GrantRefused):
    """401: an unknown user name or a wrong password, answered alike."""

    status = 401

    def __init__(self) -> None:
        super().__init__("invalid_grant", "The user name or the password is wrong.")
        self.headers |= CHALLENGE

    def members(self) -> dict[str, object]:
        return {"statusCode": 401, "message": self.text} | super().members()


class Forbidden(Refusal):
    status = 403


class NotFound(Refusal):
    status = 404


class MethodNotAllowed(Refusal):
    """405; `allowed` are the methods that the path knows (RFC 9110, section 15.5.6)."""

    status = 405

    def __init__(self, allowed: list[str]) -> None:
        super().__init__("The method is not allowed here. Allowed: " + ", ".join(allowed) + ".")
        self.headers["Allow"] = ", ".join(allowed)


class RequestTimeout(Refusal):
    status = 408


class Conflict(Refusal):
    status = 409


class ContentTooLarge(Refusal):
    status = 413


class UriTooLong(Refusal):
    status = 414


class UnsupportedMediaType(Refusal):
    """415 with the spec's JSON body; `trace_id` is the id that the log of the request carries."""

    status = 415
    media_type = JSON

    def __init__(self, trace_id: str | None = None) -> None:
        super().__init__("Unsupported Media Type")
        self.trace_id = trace_id or f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"

    def body(self) -> bytes:
        return json.dumps(
            {
                "type": "https://tools.ietf.org/html/rfc7231#section-6.5.13",
                "title": self.text,
                "status": "415",
                "traceId": self.trace_id,
            }
        ).encode()


class Unprocessable(Refusal):
    status = 422


class TooManyRequests(Refusal):
    """429 with the spec's JSON body; `retry_after` is in whole seconds."""

    status = 429
    media_type = JSON

    def __init__(self, retry_after: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"Rate limit exceeded. Retry in {retry_after} seconds.", headers)
        self.headers["Retry-After"] = str(retry_after)

    def body(self) -> bytes:
        return json.dumps({"status": "429", "message": self.text}).encode()


class InternalError(Refusal):
    status = 500

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR)


class NotImplemented(Refusal):
    """501: well-formed OData that Keyrack does not do (OData 4.01 Part 1, section 9.3.1)."""

    status = 501


class Unavailable(Refusal):
    """503: the database cannot be reached now; the request did nothing and may be repeated."""

    status = 503

    def __init__(self, text: str = "The database cannot be reached at the moment. Please try again.") -> None:
        super().__init__(text, {"Retry-After": "1"})


class BrokenOff(Exception):
    """An answer that has begun cannot be ended: the client must see that it is not whole. The log says why."""


@contextmanager
def on_constraint(refusals: Mapping[str, tuple[type[Refusal], str]]) -> Generator[None]:
    """Translate the violation of a named constraint into its refusal; any other violation goes on as it is."""
    try:
        yield
    except IntegrityConstraintViolationError as violation:
        found = refusals.get(violation.constraint_name or "")
        if found is None:
            raise
        refusal, text = found
        raise refusal(text) from None
