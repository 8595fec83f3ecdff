"""The mode of each request, which the caller or a header decides.

The header `Keyrack-Mode` precedes the mode of the calling machine client. Every other caller has `spec`. The rest of
the server asks this module, or the request that has its answer. Endpoints without a caller have no mode, so the errors
of the token endpoint are always those of RFC 6749.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import falcon.asgi

from keyrack.api.auth_schemes import ClientSecretAuth, DrivePageAuth, PublicAuth
from keyrack.api.endpoint import Endpoint
from keyrack.api.principals import Caller, ClientCaller
from keyrack.api.request_mode import RequestMode
from keyrack.core.error_codes import INVALID_HEADER, FieldError
from keyrack.core.errors import LONGEST_VALUE, BadRequest, Refusal
from keyrack.http.calls import HttpCall
from keyrack.http.request_state import RequestState

HEADER = "Keyrack-Mode"
VALID = tuple([str(mode) for mode in RequestMode])
MEANING = "The mode in which the request was handled: `spec` or `strict`."
REQUEST_MEANING = (
    "`strict` rejects unknown properties and query options, and reports every error as a problem. `spec` follows the"
    " spec to the letter. Default: the `mode` of a machine client, and `spec` for all other callers."
)


class TokenModes(Protocol):
    """The used part of authentication."""

    async def mode_of_token(self, authorization: str | None) -> RequestMode: ...


def has_mode(row: Endpoint[Any]) -> bool:
    """Whether requests of the row have a mode: they have a caller."""
    return not isinstance(row.auth, PublicAuth | ClientSecretAuth | DrivePageAuth)


def choose_mode(call: HttpCall) -> None:
    """Set the mode of an authenticated request. Raises `BadRequest` for an unknown one."""
    set_mode(call.http, call.state, call.caller)


def set_mode(http: falcon.asgi.Request, state: RequestState, caller: Caller | None) -> None:
    """Set the mode in the state of a request. Raises `BadRequest` for an unknown one."""
    header = http.get_header(HEADER)
    state.mode = caller.mode if isinstance(caller, ClientCaller) else RequestMode.SPEC
    if header is None:
        return
    mode = _named(header)
    if mode is None:
        detail = f"The header {HEADER} is {header[:LONGEST_VALUE]!a}. It must be {' or '.join(VALID)}."
        raise BadRequest(
            INVALID_HEADER.with_text(detail), errors=[FieldError("not-one-of", detail, header=HEADER, valid=VALID)]
        )
    state.mode = mode


async def mode_of_error(
    http: falcon.asgi.Request, state: RequestState, refusal: Refusal, tokens: Callable[[], TokenModes]
) -> RequestMode:
    """The mode of an error, which may precede the authentication.

    The errors of a rejected key or token have the mode of the header, else that of the client of the token. An error of
    the server does not ask for the client, because the database may be the cause.
    """
    if state.mode is not None:
        return state.mode
    if (header := http.get_header(HEADER)) is not None:
        return _named(header) or RequestMode.SPEC
    if refusal.status >= 500:
        return RequestMode.SPEC
    return await tokens().mode_of_token(http.get_header("Authorization"))


def mode_of_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestMode:
    """The mode of an error before the router.

    The names of the headers are lower-case.
    """
    wanted = HEADER.lower().encode()
    values = [value.decode("latin-1") for name, value in headers if name == wanted]
    return (_named(values[0]) if len(values) == 1 else None) or RequestMode.SPEC


def set_mode_header(state: RequestState, reply: falcon.asgi.Response) -> None:
    """Set the header of a reply to an authenticated request."""
    if state.mode is not None and not state.is_console_call:
        reply.set_header(HEADER, state.mode)


def _named(text: str) -> RequestMode | None:
    name = text.strip(" \t").lower()
    return RequestMode(name) if name in VALID else None
