"""The core of both clients, without input and output.

A flow is a generator. It yields steps (a call, a pause, a renewal of the token), and gets the responses or the
errors of the transport. `Keyrack` performs the steps with threads, `AsyncKeyrack` with asyncio.
"""

from __future__ import annotations

import base64
import difflib
import json as json_module
import os
import random
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from math import ceil
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

import httpx

from . import _types as t
from . import operations as ops
from ._errors import ApiError, KeyrackError, NoAnswer, OutcomeFailed, OutcomePending, StartOver, Unauthorized, is_list
from ._operation import Answer, Body, Operation
from .errors_by_code import CursorGone

if TYPE_CHECKING:
    from typing_extensions import Unpack

VERSION = "0.1.0"
RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_PAUSE = 60.0  # seconds of `Retry-After` that are obeyed; a longer one is raised
RENEWED_EARLY = 30.0  # seconds before the end of a token
SIGN_IN_ATTEMPTS = 3  # the token endpoint limits failed attempts
LONGEST_WAIT = 30  # seconds of `Prefer: wait`
SLACK = 30.0  # seconds that a response may take longer than the wait that was asked for
PAGE_SIZE = 500
# Each server rejects a property that it does not know, so an older one loses no property of a newer API
STRICT = "handling=strict"
LONGEST_BODY = 64 << 20  # bytes of a response, after its decompression
UNEXPECTED = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)  # no retry helps
ENVIRONMENT = {
    "url": "KEYRACK_URL",
    "api_key": "KEYRACK_API_KEY",
    "client_id": "KEYRACK_CLIENT_ID",
    "client_secret": "KEYRACK_CLIENT_SECRET",
    "customer_id": "KEYRACK_CUSTOMER_ID",
}

Result = TypeVar("Result")
Query = Mapping[str, "str | int | datetime | None"]


@dataclass(frozen=True)
class Sleep:
    """A pause before the next attempt."""

    seconds: float


@dataclass(frozen=True)
class Renew:
    """Renew the token, unless another call has renewed that generation."""

    generation: int


@dataclass(frozen=True)
class Call:
    """A request. `headers` contain secrets, so its text hides them."""

    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    params: Mapping[str, str] | None = None
    timeout: float | None = None


Step = Call | Sleep | Renew
Flow = Generator[Step, Any, Result]


@dataclass(frozen=True)
class Password:
    """The credentials of a person. Programs use a machine client instead."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Token:
    """The token of one renewal, or its error."""

    generation: int = 0
    value: str = field(default="", repr=False)
    renew_at: float = 0.0
    error: KeyrackError | None = None


class ListOptions(TypedDict, total=False):
    """Options of a list. `size` is the number of rows of a page."""

    filter: str
    search: str
    select: Sequence[str]
    expand: str
    size: int


class Options(TypedDict, total=False):
    """Options of both clients."""

    api_key: str
    client_id: str
    client_secret: str
    customer_id: int | str
    login: Password
    brand: str
    attempts: int
    timeout: float


class Core:
    """Requests, retries, the token, and the wait for outcomes."""

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        reject_unknown(options, Options, "Keyrack")
        self.url = url.rstrip("/")
        self.customer_id = options.get("customer_id")
        self.client_id = options.get("client_id", "")
        self.timeout = options.get("timeout", 30.0)
        self._attempts = max(1, options.get("attempts", 5))
        self.headers = {
            f"{options.get('brand', 'vendor')}-API-Key": options.get("api_key", ""),
            "Accept": "application/json, application/problem+json",
            "User-Agent": f"keyrack-client-python/{VERSION}",
        }
        self._sign_in_headers: dict[str, str] = {}
        if login := options.get("login"):
            form = {"grant_type": "password", "username": login.username, "password": login.password}
        elif self.client_id and "client_secret" in options:
            form = {"grant_type": "client_credentials"}
            credentials = f"{self.client_id}:{options['client_secret']}".encode()
            self._sign_in_headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        else:
            raise ValueError("Give client_id and client_secret, or login=Password(...).")
        if not options.get("api_key"):
            raise ValueError("api_key is missing.")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, got {url!r}.")
        for name, value in (("api_key", options.get("api_key", "")), ("customer_id", self.customer_id)):
            if not is_header_value(str(value)):  # the error of the transport would show the secret
                raise ValueError(f"{name} has a space, a line break or a character that a header cannot have.")
        self._sign_in_headers["Content-Type"] = "application/x-www-form-urlencoded"
        self._form = str(httpx.QueryParams(form)).encode()
        self._token = Token()

    def __repr__(self) -> str:
        return f"url={self.url!r}, customer_id={self.customer_id!r}, client_id={self.client_id!r}"

    def forget_token(self) -> None:
        self._token = Token(self._token.generation)

    # Requests

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Query | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Flow[httpx.Response]:
        """Send a request with token and key, and retry it. Raises `ApiError` and `NoAnswer`."""
        if not path.startswith("/"):
            raise ValueError(f"path must begin with '/', got {path!r}.")
        method = method.upper()
        own = self.headers | ({} if self.customer_id is None else {"Customer-ID": str(self.customer_id)})
        content = None
        if json is not None:
            content = json_module.dumps(json, default=encode_time, ensure_ascii=False).encode()
            own["Content-Type"] = "application/json"
        if method not in SAFE:
            key = key or str(uuid.uuid4())  # the same in all attempts, so the server applies the request once
            own["Idempotency-Key"] = key
        given = {name: query_text(value) for name, value in (params or {}).items() if value is not None} or None
        if timeout is None and given and given.get("wait", "").isdecimal():
            timeout = max(self.timeout, int(given["wait"]) + SLACK)  # a long poll
        is_renewed = False
        while True:
            token = self._token
            if not token.value or time.monotonic() >= token.renew_at:
                yield Renew(token.generation)
                token = self._token
            sent = own | dict(headers or {}) | {"Authorization": f"Bearer {token.value}"}
            try:
                return (yield from self._send(Call(method, path, content, sent, given, timeout), self._attempts, key))
            except Unauthorized as error:
                # Without a code it is a plain text, which does not say whether the token is meant
                if is_renewed or error.code not in ("invalid-token", ""):
                    raise
                is_renewed = True
            yield Renew(token.generation)

    def renew(self, generation: int) -> Flow[None]:
        """Get a token, unless another call has done so. The clients run one renewal at a time.

        The calls that waited for a failed renewal get its error, so that they do not repeat it.
        """
        if self._token.generation != generation:
            if self._token.error is not None:
                raise self._token.error
            return
        headers = self.headers | self._sign_in_headers
        try:
            call = Call("POST", "/oauth2/token", self._form, headers)
            answer = read_object((yield from self._send(call, min(SIGN_IN_ATTEMPTS, self._attempts), None)))
            seconds = float(answer["expires_in"])  # a number, or for a person a string
            renew_at = time.monotonic() + seconds - min(RENEWED_EARLY, seconds / 2)
            if not is_header_value(token := str(answer["access_token"])):
                raise ValueError
            self._token = Token(generation + 1, token, renew_at)
        except KeyrackError as error:
            self._token = Token(generation + 1, error=error)
            raise
        except (KeyError, TypeError, ValueError):
            invalid = KeyrackError("The token endpoint did not return a token.")
            self._token = Token(generation + 1, error=invalid)
            raise invalid from None

    def _send(self, call: Call, attempts: int, key: str | None) -> Flow[httpx.Response]:
        """Send the call until it succeeds, fails for good, or the attempts end.

        An answer with `Retry-After` is no failed attempt, but all these pauses together are at most `LONGEST_PAUSE`.
        """
        attempt, paused = 1, 0.0
        while True:
            try:
                response: httpx.Response = yield call
            except UNEXPECTED:
                raise
            except (httpx.TransportError, httpx.DecodingError) as error:
                if attempt >= attempts:
                    message = (
                        f"{call.method} {call.path}: no response in {attempt} attempts: {error or type(error).__name__}"
                    )
                    raise NoAnswer(message, key) from error
                pause = backoff(attempt)
                attempt += 1
            else:
                if response.status_code < 300 or response.status_code == 304:
                    return response
                rejection = read_error(response, key)
                named = rejection.retry_after
                is_in_flight = response.status_code == 409 and named is not None
                if not (response.status_code in RETRYABLE or is_in_flight) or (named or 0) > LONGEST_PAUSE:
                    raise rejection
                if named is None:
                    attempt += 1
                else:
                    paused += max(named, 1.0)
                if attempt > attempts or attempts == 1 or paused > LONGEST_PAUSE:
                    raise rejection
                # Jitter is added and never taken away, so that `Retry-After` is obeyed
                pause = backoff(attempt - 1) if named is None else named * random.uniform(1, 1.1)
            yield Sleep(pause)

    # Answers

    def call(
        self,
        operation: Operation[Body, Answer],
        *ids: int | str,
        body: Body | None = None,
        query: Query | None = None,
        key: str | None = None,
    ) -> Flow[Answer]:
        """Send the request of an operation, and return its answer."""
        path = operation.fill(ids)
        headers = {} if body is None else {"Prefer": STRICT}
        response = yield from self.request(operation.method, path, json=body, params=query, key=key, headers=headers)
        return cast(Answer, read_json(response) if response.content else None)

    def page(
        self, path: str, options: ListOptions, after: int | str | None, size: int, own: Query | None = None
    ) -> Flow[list[Any]]:
        """The rows of a page after an id. Pages by id do not shift when others add or delete rows.

        `own` has the query parameters of the path itself.
        """
        query: dict[str, str | int | datetime | None] = {**(own or {}), "$orderby": "id", "$top": size}
        if after is not None:
            query["$filter"] = f"id gt {after}"
        if text := options.get("filter"):
            query["$filter"] = f"({text}) and {query['$filter']}" if after is not None else text
        if names := options.get("select"):
            names = names.split(",") if isinstance(names, str) else names
            query["$select"] = ",".join(dict.fromkeys(["id", *names]))
        if text := options.get("search"):
            query["$search"] = text
        if text := options.get("expand"):
            query["$expand"] = text
        return read_rows((yield from self.request("GET", path, params=query)), after)

    # Outcomes

    def submit(
        self,
        operation: Operation[Any, Any],
        *ids: int,
        body: Any = None,
        key: str | None,
        wait: float | None,
    ) -> Flow[t.Operation]:
        """Ask for an operation, and wait for its outcome.

        A server without `Prefer: wait` answers at once, and the client polls.
        """
        until = time.monotonic() + (wait or 0.0)
        prefer = f"return=representation, {STRICT}" + (f", wait={wait_seconds(wait)}" if wait else "")
        timeout = (wait or 0.0) + SLACK
        response = yield from self.request(
            operation.method, operation.fill(ids), json=body, key=key, headers={"Prefer": prefer}, timeout=timeout
        )
        state = cast("t.Operation | None", read_object(response) if response.content else None)
        operation_id = response.headers.get("Operation-Id", "")
        if not operation_id:
            raise KeyrackError("The response does not name the operation. Is the URL that of Keyrack?")
        if wait is None:
            return state or (yield from self.call(ops.getOperation, operation_id))
        return (yield from self.outcome(operation_id, wait, until, state))

    def outcome(
        self, operation_id: str, wait: float, until: float, state: t.Operation | None = None
    ) -> Flow[t.Operation]:
        """Wait for the outcome of an operation. Raises `OutcomeFailed` and `OutcomePending`."""
        pause = 0.1
        while True:
            has_waited = False
            if state is None:
                left = until - time.monotonic()
                headers = {"Prefer": f"wait={wait_seconds(left)}"} if left >= 1 else {}
                path = ops.getOperation.fill((operation_id,))
                response = yield from self.request("GET", path, headers=headers, timeout=max(left, 0.0) + SLACK)
                state = cast(t.Operation, read_object(response))
                has_waited = "wait" in response.headers.get("Preference-Applied", "")
            if state.get("state") == "Succeeded":
                return state
            if state.get("state") == "Failed":
                raise OutcomeFailed(state)
            left = until - time.monotonic()
            if left <= 0:
                raise OutcomePending(operation_id, wait)
            state = None
            if not has_waited:
                yield Sleep(min(pause, left))
                pause = min(2.0, pause * 1.5)

    # Changes

    def newest(self) -> Flow[str]:
        """The position behind the newest change."""
        response = yield from self.request("GET", "/changes", params={"$top": 0})
        return position(response.headers.get("Changes-Epoch"), int(response.headers.get("Changes-Newest", "0")))

    def changes(
        self, epoch: str | None, since: int, wait: float | None, size: int
    ) -> Flow[tuple[str | None, list[t.Change]]]:
        """The next changes after a number, and the epoch of the log. Raises `StartOver`."""
        after = f"id gt {since}"
        params: dict[str, str | int | None] = {
            "$filter": after,
            "$orderby": "id",
            "$top": size,
            "epoch": epoch,
        }
        if wait:
            params["wait"] = min(60, max(1, ceil(wait)))
        timeout = (wait or 0.0) + SLACK
        try:
            response = yield from self.request("GET", "/changes", params=params, timeout=timeout)
        except CursorGone as error:
            found, newest = error.problem.get("epoch"), error.problem.get("newest")
            raise StartOver(found, newest if isinstance(newest, int) else 0, error.detail) from error
        return response.headers.get("Changes-Epoch", epoch), read_rows(response, since)


def position(epoch: str | None, number: int) -> str:
    return f"{epoch or ''}:{number}"


def parse_position(since: str | int | None, epoch: str | None) -> tuple[str | None, int]:
    """The epoch and the number of a position."""
    if isinstance(since, str):
        found, colon, number = since.rpartition(":")
        if not number.isdecimal() or (not colon and not number):
            raise ValueError(f"since must be a position of `changes`, such as 'EPOCH:17', got {since!r}.")
        return epoch or found or None, int(number)
    return epoch, since or 0


def wait_seconds(seconds: float) -> int:
    return min(LONGEST_WAIT, max(1, ceil(seconds)))


def backoff(attempt: int) -> float:
    """Seconds to wait after an attempt without `Retry-After`: 0.5, 1, 2 ..., at most 8, with jitter."""
    return min(8.0, 0.5 * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1)


def encode_time(value: object) -> str:
    """A `datetime` as RFC 3339 in UTC. Raises `TypeError` for other values."""
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is no JSON value.")
    if value.utcoffset() is None:
        raise TypeError(f"{value!r} has no time zone. Use datetime.now(timezone.utc), for example.")
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def query_text(value: str | int | datetime) -> str:
    """A value in a query: times as in a body, and booleans in lower case."""
    if isinstance(value, datetime):
        return encode_time(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def reject_unknown(given: Mapping[str, object], options: Any, name: str) -> None:
    """Raise `TypeError` for an option that does not exist."""
    valid: list[str] = sorted(options.__annotations__)
    for option in given:
        if option not in valid:
            near = difflib.get_close_matches(option, valid, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{name} has no option {option!r}.{hint} The options are {', '.join(valid)}.")


def patch_of(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps that set each property, and remove those that are None."""
    return [
        {"op": "remove", "path": f"/{name}"} if value is None else {"op": "replace", "path": f"/{name}", "value": value}
        for name, value in members.items()
    ]


def read_json(response: httpx.Response) -> Any:
    """The JSON body. Raises `KeyrackError` if a proxy answered with something else."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        kind = response.headers.get("Content-Type", "no type")
        raise KeyrackError(f"The response is not JSON but {kind}. Is the URL that of Keyrack?") from None


def read_object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of the body. Raises `KeyrackError`."""
    value = read_json(response)
    if not isinstance(value, dict):
        raise KeyrackError("The response is not a JSON object. Is the URL that of Keyrack?")
    return cast("dict[str, Any]", value)


def read_rows(response: httpx.Response, after: int | str | None) -> list[Any]:
    """The rows of a page in the order of their ids, all after `after`. Raises `KeyrackError`.

    Rows in another order would let the client read the same page forever.
    """
    rows = read_json(response)
    if not is_list(rows):
        raise KeyrackError("The response is not a list. Is the URL that of Keyrack?")
    last: Any = after
    for row in rows:
        id: Any = cast("dict[str, Any]", row).get("id") if isinstance(row, dict) else None
        is_id = isinstance(id, (int, str))
        if not is_id or (type(id) is type(last) and id <= last):
            raise KeyrackError("The rows of the response are not in the order of their ids, after the last page.")
        last = id
    return rows


def is_header_value(text: str) -> bool:
    """Whether a header can have the text, as one word of visible ASCII."""
    return text.isascii() and text.isprintable() and " " not in text


class BodyReader:
    """The parts of a body, with a limit of their size after decompression."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        """Add a part. Raises `KeyrackError` if the body becomes too large."""
        self._size += len(part)
        if self._size > LONGEST_BODY:
            raise KeyrackError(f"The response is larger than {LONGEST_BODY} bytes.")
        self._parts.append(part)

    def response(self) -> httpx.Response:
        """The response with its whole body."""
        headers = httpx.Headers(self._response.headers)
        for name in ("Content-Encoding", "Content-Length", "Transfer-Encoding"):
            headers.pop(name, None)
        return httpx.Response(
            self._response.status_code, headers=headers, content=b"".join(self._parts), request=self._response.request
        )


def read_error(response: httpx.Response, key: str | None) -> ApiError:
    """The error of a response: a problem, a JSON object of another form, or text."""
    try:
        problem: Any = response.json()
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": response.content[:1200].decode(errors="replace")[:300] or response.reason_phrase}
    return ApiError.make(
        response.status_code,
        cast("dict[str, Any]", problem),
        response.headers.get("X-Request-ID"),
        retry_after=read_retry_after(response.headers.get("Retry-After", "")),
        key=key,
    )


def read_retry_after(text: str) -> float | None:
    """The seconds of `Retry-After`, which has seconds or a date; None without one."""
    if text.strip().isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - datetime.now(timezone.utc)).total_seconds())


def read_environment() -> tuple[str, Options]:
    """The URL and the options of the environment. Raises `ValueError` that names all missing variables."""
    values = {name: os.environ.get(variable, "") for name, variable in ENVIRONMENT.items()}
    missing = [ENVIRONMENT[name] for name, value in values.items() if not value]
    if missing:
        raise ValueError(f"Missing in the environment: {', '.join(missing)}.")
    return values.pop("url"), cast(Options, values)
