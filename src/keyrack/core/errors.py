"""The exceptions of error responses, and the body of each status.

Each raise creates a new exception; its error code is a constant.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from asyncpg import IntegrityConstraintViolationError

from keyrack.core.error_codes import (
    DATABASE_AWAY,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    RATE_LIMITED,
    UNSUPPORTED_TYPE,
    WRONG_CREDENTIALS,
    ErrorCode,
    FieldError,
)

PLAIN_TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
PROBLEM = "application/problem+json"  # RFC 9457
LONGEST_VALUE = 100  # characters of a header value in a message


class Refusal(Exception):
    """An error response. Its body is plain text unless the spec gives its status another form (spec, "Errors").

    `errors` lists the known errors in the request.
    """

    status: int
    media_type: str = PLAIN_TEXT

    def __init__(
        self, reason: ErrorCode, headers: Mapping[str, str] | None = None, errors: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(reason.text)
        self.reason = reason
        self.headers = dict(headers or {})
        self.errors = tuple(errors)

    @property
    def text(self) -> str:
        return self.reason.text

    def body(self, trace_id: str) -> bytes:
        """The body in the spec's form, encoded as `media_type`; `trace_id` is the id of the request."""
        return self.text.encode()

    def extensions(self) -> dict[str, object]:
        """Its extension members as a problem (RFC 9457, section 3.2)."""
        return {"retryAfter": int(self.headers["Retry-After"])} if "Retry-After" in self.headers else {}


class BadRequest(Refusal):
    status = 400


CHALLENGE = {"WWW-Authenticate": 'Bearer realm="keyrack"'}  # RFC 9110, section 15.5.2: every 401 has one


class Unauthorized(Refusal):
    """401 with the spec's JSON body."""

    status = 401
    media_type = JSON

    def __init__(self, reason: ErrorCode, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(reason, CHALLENGE, errors)

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"statusCode": 401, "message": self.text}).encode()


class GrantRefused(Refusal):
    """A rejected token request: the members of RFC 6749, section 5.2. A 401 also has the two of the spec."""

    status = 400
    media_type = JSON

    def __init__(self, error: str, reason: ErrorCode) -> None:
        super().__init__(reason, {"Cache-Control": "no-store"})
        self.error = error

    def members(self) -> dict[str, object]:
        return {"error": self.error, "error_description": self.text}

    def extensions(self) -> dict[str, object]:
        return super().extensions() | {"error": self.error, "error_description": self.text}

    def body(self, trace_id: str) -> bytes:
        return json.dumps(self.members()).encode()


class WrongCredentials(GrantRefused):
    """401 for an unknown user name or a wrong password. Both get the same response."""

    status = 401

    def __init__(self) -> None:
        super().__init__("invalid_grant", WRONG_CREDENTIALS)
        self.headers |= CHALLENGE

    def members(self) -> dict[str, object]:
        return {"statusCode": 401, "message": self.text} | super().members()


class InvalidClient(GrantRefused):
    """401 for an unknown client, a wrong secret, or a disabled or expired client. All get the same response."""

    status = 401

    def __init__(self, reason: ErrorCode, *, by_header: bool = False) -> None:
        super().__init__("invalid_client", reason)
        self.headers |= {"WWW-Authenticate": 'Basic realm="keyrack"'} if by_header else CHALLENGE

    def members(self) -> dict[str, object]:
        return {"statusCode": 401, "message": self.text} | super().members()


class Forbidden(Refusal):
    status = 403


class NotFound(Refusal):
    status = 404


class MethodNotAllowed(Refusal):
    """405 with the methods that the path supports (RFC 9110, section 15.5.6)."""

    status = 405

    def __init__(self, allowed: list[str]) -> None:
        methods = ", ".join(allowed)
        super().__init__(NOT_ALLOWED.format(methods=methods), {"Allow": methods})


class RequestTimeout(Refusal):
    status = 408


class Conflict(Refusal):
    status = 409


class Gone(Refusal):
    """410: the position is not available. `extensions` has the available range."""

    status = 410

    def __init__(
        self,
        reason: ErrorCode,
        extensions: Mapping[str, object],
        headers: Mapping[str, str],
        errors: Sequence[FieldError] = (),
    ) -> None:
        super().__init__(reason, headers, errors)
        self._extensions = dict(extensions)

    def extensions(self) -> dict[str, object]:
        return super().extensions() | self._extensions


class PreconditionFailed(Refusal):
    status = 412


class ContentTooLarge(Refusal):
    status = 413


class UriTooLong(Refusal):
    status = 414


class UnsupportedMediaType(Refusal):
    """415 with the spec's JSON body: `header` has the value `value`, which is not one of `valid`.

    The header Accept or Accept-Encoding of the response lists the valid values (RFC 9110, section 15.5.16).
    """

    status = 415
    media_type = JSON

    def __init__(self, header: str, value: str | None, valid: Sequence[str]) -> None:
        names = " or ".join(filter(None, (", ".join(valid[:-1]), valid[-1])))
        self.detail = f"The header {header} is missing. It must be {names}."
        if value:
            self.detail = f"The header {header} is {value[:LONGEST_VALUE]!a}. It must be {names}."
        taken = {"Content-Type": "Accept", "Content-Encoding": "Accept-Encoding"}[header]
        super().__init__(
            UNSUPPORTED_TYPE,
            {taken: ", ".join(valid)},
            (FieldError("not-one-of", self.detail, header=header, valid=tuple(valid)),),
        )

    def body(self, trace_id: str) -> bytes:
        return json.dumps(
            {
                "type": "https://tools.ietf.org/html/rfc7231#section-6.5.13",
                "title": self.text,
                "status": "415",
                "traceId": trace_id,
                "detail": self.detail,
            }
        ).encode()


class RangeNotSatisfiable(Refusal):
    status = 416


class Unprocessable(Refusal):
    status = 422


class TooManyRequests(Refusal):
    """429 with the spec's JSON body; `retry_after` is in whole seconds."""

    status = 429
    media_type = JSON

    def __init__(
        self, retry_after: int, headers: Mapping[str, str] | None = None, *, reason: ErrorCode = RATE_LIMITED
    ) -> None:
        super().__init__(reason.format(seconds=retry_after), headers)
        self.headers["Retry-After"] = str(retry_after)

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"status": "429", "message": self.text}).encode()


class HeadTooLarge(Refusal):
    status = 431


class InternalError(Refusal):
    status = 500

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR)


class NotImplemented(Refusal):
    """501: valid OData that Keyrack does not support (OData 4.01 Part 1, section 9.3.1)."""

    status = 501


class Unavailable(Refusal):
    """503. With `Retry-After`, the request had no effect and can be retried."""

    status = 503

    def __init__(self, reason: ErrorCode = DATABASE_AWAY, *, repeatable: bool = True) -> None:
        super().__init__(reason, {"Retry-After": "1"} if repeatable else None)


class IdempotentReplay(Refusal):
    """A stored error response, replayed for a repeated request with its `Idempotency-Key`."""

    def __init__(
        self,
        status: int,
        media_type: str,
        body: bytes,
        reason: ErrorCode,
        headers: Mapping[str, str],
        errors: Sequence[FieldError],
        extensions: Mapping[str, object],
    ) -> None:
        super().__init__(reason, headers, errors)
        self.status = status
        self.media_type = media_type
        self._body = body
        self._extensions = extensions

    def extensions(self) -> dict[str, object]:
        return dict(self._extensions)

    def body(self, trace_id: str) -> bytes:
        return self._body


class ConnectionAborted(Exception):
    """A started response cannot be completed, and the client must notice that. The log has the cause."""


@contextmanager
def on_constraint(refusals: Mapping[str, tuple[type[Refusal], ErrorCode]]) -> Generator[None]:
    """Translate the violation of a named constraint into its error. Other violations propagate."""
    try:
        yield
    except IntegrityConstraintViolationError as violation:
        translation = refusals.get(violation.constraint_name or "")
        if translation is None:
            raise
        refusal, reason = translation
        raise refusal(reason) from None
