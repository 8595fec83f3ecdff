"""Error codes, and those that several endpoints share: connections, authentication, bodies, the database.

An endpoint defines its own error codes in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

ACRONYMS = {word.lower(): word for word in ("API", "ASCII", "HTTP", "ID", "IQ", "JSON", "SDK", "TOTP")}
# Old code -> new code. For one release, a problem also names the old code as `previousCode`
RENAMED: Mapping[str, str] = {
    "access-behind": "access-history-pending",
    "access-gone": "access-history-expired",
    "app-not-found": "totp-not-set-up",
    "app-set-up": "totp-already-set-up",
    "box-without-key": "no-key-for-box",
    "client-must-show-itself": "client-authentication-required",
    "last-way-in": "last-sign-in-method",
    "leader-unproven": "primary-unconfirmed",
    "passkeys-not-here": "passkeys-unavailable",
    "rule-without-factor": "second-factor-not-used",
    "secrets-closed": "secrets-unavailable",
    "too-many-stretches": "too-many-access-periods",
    "too-much-under-way": "ingest-overloaded",
    "too-much-under-way-of-key": "ingest-overloaded-by-key",
    "two-secrets": "too-many-client-secrets",
}
_PREVIOUS: Mapping[str, str] = {new: old for old, new in RENAMED.items()}


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An error: its code for programs, its message and its remedy.

    A code never gets another meaning. The text of a constant may have places, such as `{scope}`, which `format` fills.
    """

    code: str  # kebab-case
    text: str
    remedy: str = ""  # one imperative sentence, for docs/errors.md
    pattern: str = ""  # the text with its places
    values: tuple[tuple[str, object], ...] = ()  # name and value of each place

    @property
    def previous(self) -> str | None:
        """The code's name in the previous release; None if it is not renamed."""
        return _PREVIOUS.get(self.code)

    @property
    def title(self) -> str:
        """The code as words."""
        words = " ".join(ACRONYMS.get(word, word) for word in self.code.split("-"))
        return words[:1].upper() + words[1:]

    def __str__(self) -> str:
        return self.text

    def format(self, **values: object) -> ErrorCode:
        """The same error code with the places of its text filled."""
        return replace(self, text=self.text.format(**values), pattern=self.text, values=tuple(values.items()))

    def with_text(self, text: str) -> ErrorCode:
        """The same error code with another text."""
        return replace(self, text=text, pattern="", values=())

    def translated(self, translate: Callable[[str], str]) -> str:
        """The text in another language. `translate` gets the text of the source, with its places."""
        return translate(self.pattern).format(**dict(self.values)) if self.pattern else translate(self.text)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in a request, with its place.

    `pointer` is a JSON Pointer into the body (RFC 6901). `valid` has the valid values or names if they can be listed.
    """

    code: str  # kebab-case, such as `missing` or `wrong-type`
    detail: str
    pointer: str | None = None
    valid: tuple[object, ...] = ()
    parameter: str | None = None  # of the query string
    position: int | None = None  # in the parameter's value, in characters from 0
    header: str | None = None

    def members(self) -> dict[str, object]:
        """The error as the members of a JSON object."""
        values = {
            "pointer": self.pointer,
            "parameter": self.parameter,
            "position": self.position,
            "header": self.header,
            "code": self.code,
            "detail": self.detail,
            "valid": list(self.valid) or None,
        }
        return {name: value for name, value in values.items() if value is not None}


# Code of a field error -> its meaning
FAULTS = {
    "missing": "A required value is missing.",
    "unknown": "The name is not known; `valid` lists the known names.",
    "wrong-type": "The value has the wrong type.",
    "wrong-form": "The value has the right type but the wrong format, such as a time without an offset.",
    "blank": "The text is blank.",
    "too-long": "The text or the array is too long.",
    "too-short": "The text or the array is too short.",
    "direction-control": "The text contains a character that changes the direction of others, such as U+202E.",
    "out-of-range": "The number or time is out of range, or contradicts another property.",
    "not-one-of": "The value is not one of those in `valid`.",
    "taken": "Another resource has the same value.",
    "one-needed": "One of the properties in `valid` is required.",
    "invalid-json": "The body is not valid JSON.",
    "syntax": "The query option has a syntax error at this position.",
    "not-supported": "The query option is valid, but is not supported here.",
    "repeated": "The name is given more than once.",
}

# Malformed requests and overload, before a request is routed

NO_HTTP = ErrorCode("invalid-http", "Invalid HTTP request received.", "Send HTTP/1.1 as RFC 9112 defines it.")
ONE_HOST = ErrorCode(
    "host-header",
    "The request needs exactly one Host header.",
    "Send exactly one `Host` header (RFC 9112, section 3.2).",
)
INVALID_HOST = ErrorCode(
    "invalid-host",
    "The Host header is not valid.",
    "Send the host name and its port in `Host` (RFC 9112, section 3.2).",
)
TRANSFER_CODING = ErrorCode(
    "transfer-coding",
    "The only supported transfer coding is chunked.",
    "Send the body with `Content-Length`, or with `Transfer-Encoding: chunked`.",
)
HEAD_TOO_LARGE = ErrorCode(
    "head-too-large", "The head of the request is too large.", "Send fewer or shorter headers, or a shorter URL."
)
HEAD_TOO_SLOW = ErrorCode(
    "head-too-slow", "The head of the request took too long to arrive.", "Send the request again without pauses."
)
FULL = ErrorCode(
    "too-many-connections",
    "Too many connections are open at the moment. Please try again.",
    "Retry the request after the seconds in `Retry-After`.",
)
OVERLOADED = ErrorCode(
    "overloaded",
    "The server is overloaded. Please try again.",
    "Retry after the seconds in `Retry-After`, with fewer concurrent requests.",
)
FULL_OF_ONE = ErrorCode(
    "too-many-connections-of-address",
    "Too many connections are open from this address. Close some, or use them for several requests.",
    "Keep connections open, and send several requests over each.",
)

# Any request

QUERY_TOO_LONG = ErrorCode(
    "query-too-long",
    "The query string is longer than {most} bytes.",
    "Split the query into several requests, or use shorter names.",
)
QUERY_NOT_ASCII = ErrorCode(
    "query-not-ascii",
    "The query string has bytes that are not ASCII. Percent-encode them.",
    "Percent-encode the query string as UTF-8.",
)
INVALID_HEADER = ErrorCode(
    "invalid-header",
    "Invalid header value",
    "Correct the headers of the request.",
)
NOTHING_HERE = ErrorCode(
    "path-not-found",
    "There is nothing at this path.",
    "Look up the path in the API reference; paths are case-sensitive.",
)
NOT_ALLOWED = ErrorCode(
    "method-not-allowed",
    "The method is not allowed here. This path allows {methods}.",
    "Use a method that the header `Allow` lists.",
)
EMPTY_RANGE = ErrorCode(
    "empty-time-range", "`to` must be later than `from`.", "Send a `to` that is later than `from`, or leave it out."
)
INTERNAL_ERROR = ErrorCode(
    "internal-error", "Internal server error.", "Report the `traceId` to the operator, who finds the cause in the log."
)

# Authentication

INVALID_KEY = ErrorCode(
    "invalid-api-key",
    "Access denied due to invalid subscription key. Make sure to provide a valid key for an active subscription.",
    "Send an API key that is neither revoked nor expired.",
)
INVALID_TOKEN = ErrorCode(
    "invalid-token",
    "Unauthorized. Access token is missing or invalid.",
    "Get a new token by `POST /oauth2/token` (an app: by `POST /sdk/token`), and send it as `Authorization: Bearer`.",
)
INVALID_DEVICE_KEY = ErrorCode(
    "invalid-device-key",
    "Access denied due to invalid device key.",
    "Send a device key that is not revoked in the header `Device-Key`.",
)
NO_SCOPE = ErrorCode(
    "missing-scope",
    "The device key does not have the scope {scope}.",
    "Grant the scope to the key by `keyrack device-key change`.",
)
NO_MANAGER = ErrorCode(
    "manager-not-found",
    "Unable to find a manager for the given OAuth ID claim data.",
    "Sign in as a manager who is neither removed nor disabled.",
)
NO_CUSTOMER_ID = ErrorCode(
    "missing-customer-id",
    "The header Customer-ID is missing.",
    "Send the header `Customer-ID` with an id that `GET /customers` returns.",
)
INVALID_CUSTOMER_ID = ErrorCode(
    "invalid-customer-id",
    "The header Customer-ID must be an integer.",
    "Send the header `Customer-ID` once, with an id that `GET /customers` returns.",
)
NO_USER = ErrorCode(
    "user-not-found",
    "Unable to find a user for the given userId which is assigned to the given customerId.",
    "Use an id that `GET /users` returns for this customer.",
)
NO_DEVICE = ErrorCode(
    "device-not-found",
    "Unable to find a device for the given deviceId which is assigned to the user.",
    "Register the phone first: `PUT /sdk/devices`.",
)
NO_CUSTOMER = ErrorCode(
    "customer-not-found",
    "Unable to find a customer for the given Customer-ID.",
    "Use a customer id that `GET /customers` returns.",
)
SIGNED_OUT = ErrorCode(
    "signed-out",
    "You are signed out.",
    "Sign in again: sessions end after some hours, at a sign-out and when the password changes.",
)
OTHER_ORIGIN = ErrorCode(
    "other-origin",
    "The request comes from a page of another origin.",
    "Open the page at the public address of this server; a proxy must forward the headers Host and Origin.",
)
WRONG_CREDENTIALS = ErrorCode(
    "wrong-credentials",
    "The user name or the password is wrong.",
    "Check the user name and the password.",
)
RATE_LIMITED = ErrorCode(
    "rate-limited",
    "Rate limit exceeded. Retry in {seconds} seconds.",
    "Retry after the seconds in `Retry-After`; the `RateLimit` headers show the remaining quota.",
)

# The body

NO_FORM = ErrorCode(
    "invalid-form",
    "The body is not a form in UTF-8.",
    "Send the parameters as `name=value`, joined by `&` and percent-encoded as UTF-8.",
)
UNSUPPORTED_TYPE = ErrorCode(
    "unsupported-media-type", "Unsupported Media Type", "Send the body in a media type that `errors` lists."
)
BODY_TOO_LARGE = ErrorCode(
    "body-too-large",
    "The body must be smaller than {most} bytes.",
    "Split the body into several requests.",
)
BODY_TOO_PACKED = ErrorCode(
    "body-too-packed",
    "The body decompresses to more than {ratio} times its size.",
    "Send fewer lines per request, or send them uncompressed.",
)
BODY_TOO_SLOW = ErrorCode(
    "body-too-slow",
    "The body of the request took too long to arrive.",
    "Send the request again, with a smaller body if possible.",
)
NO_GZIP = ErrorCode(
    "invalid-gzip",
    "The body is not valid gzip.",
    "Send one complete gzip file (RFC 1952), or leave out `Content-Encoding`.",
)
TOO_MUCH = ErrorCode(
    "ingest-overloaded",
    "Deliveries with more than {most} bytes are being processed. Please send this one again.",
    "Send the same delivery again after the seconds in `Retry-After`.",
)
TOO_MUCH_OF_KEY = ErrorCode(
    "ingest-overloaded-by-key",
    "Deliveries of this device key with more than {most} bytes are being processed. Wait for their responses,"
    " then send this one again.",
    "Send one delivery at a time.",
)

# The database

DATABASE_AWAY = ErrorCode(
    "database-unreachable",
    "The database cannot be reached at the moment. Please try again.",
    "Retry the request after the seconds in `Retry-After`.",
)
NOT_NOW = ErrorCode(
    "database-interrupted",
    "The database cannot process the request at the moment. Please try again.",
    "Retry the request after the seconds in `Retry-After`.",
)
OUTCOME_UNKNOWN = ErrorCode(
    "outcome-unknown",
    "The connection to the database was lost during the write. It is unknown whether the change was made.",
    "Send the same request again with the same `Idempotency-Key`; without a key, check first whether the"
    " change was made.",
)
PRIMARY_UNCONFIRMED = ErrorCode(
    "primary-unconfirmed",
    "The server cannot confirm at the moment that its database is the primary. Please try again.",
    "Retry the request after the seconds in `Retry-After`; a failover is in progress, or the standbys are unreachable.",
)
DATABASE_TOO_SLOW = ErrorCode(
    "database-too-slow",
    "The database took too long to process the request. Request less at once.",
    "Retry the request after the seconds in `Retry-After`.",
)
QUERY_TOO_SLOW = ErrorCode(
    "query-too-slow",
    "The database took too long to process the query. Request less at once.",
    "Narrow the query with `$filter`, reduce `$top`, or order by an indexed property such as `id`.",
)
QUERY_OUT_OF_RANGE = ErrorCode(
    "query-value-out-of-range",
    "The query specified in the URI is not valid. A value is out of range for its type or for a function.",
    "Correct the numbers and times in the query.",
)
