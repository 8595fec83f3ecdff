"""In charge of refusals: every answer that is not what the caller asked for, and the body its status has.

A refusal is raised new each time; its reason is a constant that stands beside the code that raises it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from asyncpg import IntegrityConstraintViolationError

PLAIN_TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is refused: `code` is for programs and never changes its meaning, `text` is the spec's message.

    The text of a constant may have places, as `{scope}`, which `format` fills.
    """

    code: str  # kebab-case
    text: str

    def __str__(self) -> str:
        return self.text

    def format(self, **values: object) -> Reason:
        """The same reason, the places of its text filled."""
        return replace(self, text=self.text.format(**values))

    def saying(self, text: str) -> Reason:
        """The same reason in other words."""
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request, where it is known which part of it.

    `pointer` leads into the body (RFC 6901). `valid` are the values or the names that would have been right, where they
    can be listed.
    """

    code: str  # kebab-case, as `missing` or `wrong-type`
    detail: str
    pointer: str | None = None
    valid: tuple[object, ...] = ()


INVALID_KEY = Reason(
    "invalid-api-key",
    "Access denied due to invalid subscription key. Make sure to provide a valid key for an active subscription.",
)
INVALID_TOKEN = Reason("invalid-token", "Unauthorized. Access token is missing or invalid.")
INVALID_DEVICE_KEY = Reason("invalid-device-key", "Access denied due to invalid device key.")
NO_SCOPE = Reason("missing-scope", "The device key does not have the scope {scope}.")
NO_MANAGER = Reason("manager-not-found", "Unable to find a manager for the given OAuth ID claim data.")
NO_CUSTOMER = Reason("customer-not-found", "Unable to find a customer for the given Customer-ID.")
NOTHING_HERE = Reason("path-not-found", "There is nothing at this path.")
WRONG_CREDENTIALS = Reason("wrong-credentials", "The user name or the password is wrong.")
NOT_ALLOWED = Reason("method-not-allowed", "The method is not allowed here. Allowed: {methods}.")
UNSUPPORTED_TYPE = Reason("unsupported-media-type", "Unsupported Media Type")
RATE_LIMITED = Reason("rate-limited", "Rate limit exceeded. Retry in {seconds} seconds.")
INTERNAL_ERROR = Reason("internal-error", "Internal server error.")
DATABASE_AWAY = Reason("database-unreachable", "The database cannot be reached at the moment. Please try again.")


class Refusal(Exception):
    """An answer with an error status; `text` is its message (spec, "Errors": plain text unless said otherwise).

    `errors` tell, fault by fault, what is wrong with the request, as far as that is known.
    """

    status: ClassVar[int]
    media_type: ClassVar[str] = PLAIN_TEXT

    def __init__(self, reason: Reason, headers: Mapping[str, str] | None = None, errors: Sequence[Fault] = ()) -> None:
        super().__init__(reason.text)
        self.reason = reason
        self.headers = dict(headers or {})
        self.errors = tuple(errors)

    @property
    def text(self) -> str:
        return self.reason.text

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

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason, CHALLENGE)

    def body(self) -> bytes:
        return json.dumps({"statusCode": 401, "message": self.text}).encode()


class GrantRefused(Refusal):
    """A refused token request: the members of RFC 6749, section 5.2; with 401 also the spec's own two."""

    status = 400
    media_type = JSON

    def __init__(self, error: str, reason: Reason) -> None:
        super().__init__(reason, {"Cache-Control": "no-store"})
        self.error = error

    def members(self) -> dict[str, object]:
        return {"error": self.error, "error_description": self.text}

    def body(self) -> bytes:
        return json.dumps(self.members()).encode()


class WrongCredentials(GrantRefused):
    """401: an unknown user name or a wrong password, answered alike."""

    status = 401

    def __init__(self) -> None:
        super().__init__("invalid_grant", WRONG_CREDENTIALS)
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
        methods = ", ".join(allowed)
        super().__init__(NOT_ALLOWED.format(methods=methods), {"Allow": methods})


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
        super().__init__(UNSUPPORTED_TYPE)
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
        super().__init__(RATE_LIMITED.format(seconds=retry_after), headers)
        self.headers["Retry-After"] = str(retry_after)

    def body(self) -> bytes:
        return json.dumps({"status": "429", "message": self.text}).encode()


class HeadTooLarge(Refusal):
    status = 431


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

    def __init__(self, reason: Reason = DATABASE_AWAY) -> None:
        super().__init__(reason, {"Retry-After": "1"})


class BrokenOff(Exception):
    """An answer that has begun cannot be ended: the client must see that it is not whole. The log says why."""


@contextmanager
def on_constraint(refusals: Mapping[str, tuple[type[Refusal], Reason]]) -> Generator[None]:
    """Translate the violation of a named constraint into its refusal; any other violation goes on as it is."""
    try:
        yield
    except IntegrityConstraintViolationError as violation:
        found = refusals.get(violation.constraint_name or "")
        if found is None:
            raise
        refusal, reason = found
        raise refusal(reason) from None
