"""Error codes and field errors, and the codes of no single endpoint.

Other codes are defined next to the code that raises them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

ACRONYMS = {word.lower(): word for word in ("API", "ASCII", "HTTP", "ID", "IQ", "JSON", "SDK")}


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An error code: `code` is for programs, and never changes its meaning.

    `text` is the spec's message. The text of a constant may have placeholders, such as `{scope}`, which `format` fills.
    """

    code: str  # kebab-case
    text: str
    remedy: str = ""  # how to fix it, for docs/errors.md
    pattern: str = ""  # the text with its placeholders
    values: tuple[tuple[str, object], ...] = ()  # the values of the placeholders

    @property
    def title(self) -> str:
        """The code as words."""
        words = " ".join(ACRONYMS.get(word, word) for word in self.code.split("-"))
        return words[:1].upper() + words[1:]

    def __str__(self) -> str:
        return self.text

    def format(self, **values: object) -> ErrorCode:
        """The same error, with its placeholders filled."""
        return replace(self, text=self.text.format(**values), pattern=self.text, values=tuple(values.items()))

    def with_text(self, text: str) -> ErrorCode:
        """The same error with another text."""
        return replace(self, text=text, pattern="", values=())

    def translated(self, translate: Callable[[str], str]) -> str:
        """The text in another language.

        `translate` gets the text of the source, with its placeholders.
        """
        return translate(self.pattern).format(**dict(self.values)) if self.pattern else translate(self.text)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request, with its place if that is known.

    `pointer` leads into the body (RFC 6901). `valid` are the valid values or names, if they can be listed.
    """

    code: str  # kebab-case, such as `missing` or `wrong-type`
    detail: str
    pointer: str | None = None
    valid: tuple[object, ...] = ()
    parameter: str | None = None  # of the query string
    position: int | None = None  # in the parameter's value, in characters from 0
    header: str | None = None

    def members(self) -> dict[str, object]:
        """The fault as JSON, for the client."""
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


# Code of a fault -> what it says of its place
FAULTS = {
    "missing": "What must be there is not.",
    "unknown": "There is nothing of this name; `valid` lists the names that there are.",
    "wrong-type": "The value is of another JSON type.",
    "wrong-form": "The value has the right type and another form, such as a time without an offset.",
    "blank": "The text has nothing to be seen.",
    "too-long": "The text, or the array, is too long.",
    "too-short": "The text, or the array, is too short.",
    "direction-control": "The text has a character that changes the direction of others, such as U+202E.",
    "out-of-range": "The number is too small or too large, or contradicts another member.",
    "not-one-of": "Only the values in `valid` are taken.",
    "one-needed": "One of the members in `valid` is needed.",
    "invalid-json": "The body breaks off being JSON here.",
    "syntax": "The query option is malformed at this position.",
    "not-supported": "The query option is well-formed, and there is no such thing here.",
    "repeated": "It is given more than once.",
}

# Before there is a request

NO_HTTP = ErrorCode("invalid-http", "Invalid HTTP request received.", "Send HTTP/1.1 as RFC 9112 has it.")
ONE_HOST = ErrorCode(
    "host-header", "The request needs exactly one Host header.", "Send one Host, as RFC 9112, section 3.2 has it."
)
INVALID_HOST = ErrorCode(
    "invalid-host", "The Host header is not valid.", "Send the host and its port, as RFC 9112, section 3.2 has it."
)
TRANSFER_CODING = ErrorCode(
    "transfer-coding", "The only transfer coding is chunked.", "Send the body with a Content-Length, or chunked alone."
)
HEAD_TOO_LARGE = ErrorCode(
    "head-too-large", "The head of the request is too large.", "Send fewer or shorter headers, or a shorter address."
)
HEAD_TOO_SLOW = ErrorCode(
    "head-too-slow", "The head of the request took too long to arrive.", "Send the request again, in one go."
)
FULL = ErrorCode(
    "too-many-connections",
    "Too many connections are open at the moment. Please try again.",
    "Try again after the seconds that Retry-After says.",
)
OVERLOADED = ErrorCode(
    "overloaded",
    "The server has more to do than it can at the moment. Please try again.",
    "Send the request again after the seconds that Retry-After says, and fewer at once; nothing was done.",
)
FULL_OF_ONE = ErrorCode(
    "too-many-connections-of-address",
    "Too many connections are open from this address. Close some, or use them for several requests.",
    "Keep connections open and use each for several requests.",
)

# Any request

QUERY_TOO_LONG = ErrorCode(
    "query-too-long",
    "The query string is longer than {most} bytes.",
    "Ask for it in several requests, or with shorter names.",
)
QUERY_NOT_ASCII = ErrorCode(
    "query-not-ascii",
    "The query string has bytes that are not ASCII. Percent-encode them.",
    "Percent-encode the query string as UTF-8.",
)
INVALID_HEADER = ErrorCode(
    "invalid-header",
    "Invalid header value",
    "Look at the headers of the request: one of them is not of its form.",
)
NOTHING_HERE = ErrorCode(
    "path-not-found",
    "There is nothing at this path.",
    "Look the path up in the API reference; it is case-sensitive.",
)
NOT_ALLOWED = ErrorCode(
    "method-not-allowed",
    "The method is not allowed here. Allowed: {methods}.",
    "Use one of the methods that the header Allow names.",
)
EMPTY_RANGE = ErrorCode(
    "empty-time-range", "The to must lie after the from.", "Send a to that is later than the from, or none."
)
INTERNAL_ERROR = ErrorCode(
    "internal-error", "Internal server error.", "Tell the operator the traceId: the log has the cause under it."
)

# The caller

INVALID_KEY = ErrorCode(
    "invalid-api-key",
    "Access denied due to invalid subscription key. Make sure to provide a valid key for an active subscription.",
    "Send the header with a key that is not revoked and not expired.",
)
INVALID_TOKEN = ErrorCode(
    "invalid-token",
    "Unauthorized. Access token is missing or invalid.",
    "Get a new token at POST /oauth2/token, an app's one at POST /sdk/token; send it as Authorization: Bearer.",
)
INVALID_DEVICE_KEY = ErrorCode(
    "invalid-device-key",
    "Access denied due to invalid device key.",
    "Send the header Device-Key with a key that is not revoked.",
)
NO_SCOPE = ErrorCode(
    "missing-scope",
    "The device key does not have the scope {scope}.",
    "Give the key this scope: keyrack device-key change.",
)
NO_MANAGER = ErrorCode(
    "manager-not-found",
    "Unable to find a manager for the given OAuth ID claim data.",
    "The manager was removed or disabled since the token was made: log in as another one.",
)
NO_CUSTOMER_ID = ErrorCode(
    "missing-customer-id",
    "The header Customer-ID is missing.",
    "Send the header Customer-ID with one of the ids that GET /customers returns.",
)
INVALID_CUSTOMER_ID = ErrorCode(
    "invalid-customer-id",
    "The header Customer-ID must be an integer.",
    "Send the header Customer-ID once, with one of the ids that GET /customers returns.",
)
NO_CUSTOMER = ErrorCode(
    "customer-not-found",
    "Unable to find a customer for the given Customer-ID.",
    "Use one of the customers that GET /customers returns.",
)
SIGNED_OUT = ErrorCode(
    "signed-out",
    "You are signed out.",
    "Sign in again: sessions end after some hours, at a sign-out and when the password changes.",
)
OTHER_ORIGIN = ErrorCode(
    "other-origin",
    "The request comes from a page of another origin.",
    "Use the page at the address at which this server is reached; a proxy in front has to pass on Host and Origin.",
)
WRONG_CREDENTIALS = ErrorCode(
    "wrong-credentials",
    "The user name or the password is wrong.",
    "Check both; after many tries wait as long as the next answer says.",
)
RATE_LIMITED = ErrorCode(
    "rate-limited",
    "Rate limit exceeded. Retry in {seconds} seconds.",
    "Send it again after the seconds that Retry-After says; the headers RateLimit tell what is left.",
)

# The body

NO_FORM = ErrorCode(
    "invalid-form",
    "The body is not a form in UTF-8.",
    "Send the parameters as name=value with & between them, percent-encoded as UTF-8.",
)
UNSUPPORTED_TYPE = ErrorCode(
    "unsupported-media-type", "Unsupported Media Type", "Send the body as one of the media types that `errors` lists."
)
BODY_TOO_LARGE = ErrorCode(
    "body-too-large",
    "The body must be smaller than {most} bytes.",
    "Send it in several requests.",
)
BODY_TOO_PACKED = ErrorCode(
    "body-too-packed",
    "The body is more than {ratio} times its size when it is unpacked.",
    "Send fewer lines at once, or do not compress them.",
)
BODY_TOO_SLOW = ErrorCode(
    "body-too-slow",
    "The body of the request took too long to arrive.",
    "Send the request again; a smaller body arrives sooner.",
)
NO_GZIP = ErrorCode(
    "invalid-gzip",
    "The body is not valid gzip.",
    "Send a whole gzip file with nothing behind it (RFC 1952), or leave out Content-Encoding.",
)
TOO_MUCH = ErrorCode(
    "too-much-under-way",
    "Deliveries with more than {most} bytes are under way here. Please send this one again.",
    "Send the same delivery again after the seconds that Retry-After says.",
)
TOO_MUCH_OF_KEY = ErrorCode(
    "too-much-under-way-of-key",
    "Deliveries of this device key with more than {most} bytes are under way."
    " Wait for their answers, then send this one again.",
    "Send one delivery after the other.",
)

# The database

DATABASE_AWAY = ErrorCode(
    "database-unreachable",
    "The database cannot be reached at the moment. Please try again.",
    "Nothing was done: send the same request again after the seconds that Retry-After says.",
)
NOT_NOW = ErrorCode(
    "database-interrupted",
    "The database cannot do this at the moment. Please try again.",
    "Nothing was done: send the same request again after the seconds that Retry-After says.",
)
OUTCOME_UNKNOWN = ErrorCode(
    "outcome-unknown",
    "The connection to the database was lost while this was being written. It may have been done, or not.",
    "Send the same request again with the same Idempotency-Key: it is done once. Without a key, look first whether it"
    " was done.",
)
LEADER_UNPROVEN = ErrorCode(
    "leader-unproven",
    "It cannot be proven at the moment that the database is up to date. Please try again.",
    "The database hands over to another server, or has lost those that keep its copies. Nothing was done: send the same"
    " request again after the seconds that Retry-After says.",
)
DATABASE_TOO_SLOW = ErrorCode(
    "database-too-slow",
    "The statement took too long in the database. Ask for less at once.",
    "Nothing was done: send the same request again after the seconds that Retry-After says.",
)
QUERY_TOO_SLOW = ErrorCode(
    "query-too-slow",
    "The statement took too long in the database. Ask for less at once.",
    "Narrow the query with $filter, or take less with $top; order by what an index leads through, as id.",
)
QUERY_OUT_OF_RANGE = ErrorCode(
    "query-value-out-of-range",
    "The query specified in the URI is not valid. A value is outside of what its type or a function can hold.",
    "Look at the numbers and times in the query: one of them is too large.",
)
