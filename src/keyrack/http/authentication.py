"""Authentication of requests: the caller by API key and token, or by the session of a browser."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Protocol

from keyrack.api.endpoint import Endpoint
from keyrack.api.grants import Grant
from keyrack.api.principals import Caller, ManagerCaller
from keyrack.auth import sessions
from keyrack.auth.api_keys import KeyRefused
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.sessions import BrowserSession
from keyrack.core.error_codes import SIGNED_OUT
from keyrack.core.errors import Refusal, Unauthorized
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.http.request_state import request_state
from keyrack.http.session_cookie import CookieRequest, SessionCookies


class AuthenticatedRequest(CookieRequest, Protocol):
    """The used part of the framework's request."""

    @property
    def scope(self) -> dict[str, Any]: ...
    @property
    def remote_addr(self) -> str: ...


class RequestAuthenticator:
    """Authenticates the requests of one process."""

    def __init__(self, settings: Settings, cookies: SessionCookies, access: Authenticator, own: Database) -> None:
        self._settings = settings
        self._cookies = cookies
        self._access = access
        self._db = own
        self._key_header = f"{settings.brand}-API-Key"

    def has_no_key(self, http: AuthenticatedRequest) -> bool:
        """Whether the request has no API key."""
        return http.get_header(self._key_header) is None

    async def caller(self, http: AuthenticatedRequest, *, key: bool, token: bool) -> Caller | None:
        """The caller, from the API key and the token as required; None if no token is.

        For a call from a console page, the browser session replaces both. Raises `Unauthorized`, `NotFound`, and
        `Forbidden` for a write from a page of another origin.
        """
        if request_state(http.scope).is_console_call and (key or token):
            self._cookies.check_origin(http)
            return await self.manager(await self.signed_in(http))
        given, authorization = http.get_header(self._key_header), http.get_header("Authorization")
        if key and token and given is None and self._settings.clients_without_key and authorization:
            with suppress(Refusal):  # an error of the token is reported after the check of the key
                caller = await self._access.caller(authorization)
                if self._access.goes_without_key(caller, given):
                    return caller
        if key:
            try:
                await self._access.check_key(given)
            except KeyRefused as refused:
                refused.logged(http.remote_addr)
                raise
        return await self._access.caller(authorization) if token else None

    async def signed_in(self, http: AuthenticatedRequest, *, used: bool = True) -> BrowserSession:
        """The session of a browser. Raises `Unauthorized` if there is none."""
        self._access.check()
        secret = self._cookies.secret(http)
        session = await sessions.find(self._db, secret, self._settings, used=used) if secret else None
        if session is None:
            raise Unauthorized(SIGNED_OUT)
        return session

    async def manager(self, session: BrowserSession) -> ManagerCaller:
        """The manager of a session. Raises `Unauthorized`, `NotFound`."""
        return await self._access.acting(session.subject, session.sign_outs, session.amr, session.began)

    async def recheck(self, http: AuthenticatedRequest, endpoint: Endpoint[Any], customer: int, grant: Grant) -> float:
        """The time until which a stream may continue, in seconds since 1970. Raises `Refusal`.

        Everything is looked up again, without counting as a use of the session. The time is 0 if the caller's grant has
        changed: the next stream begins with the new grant.
        """
        if request_state(http.scope).is_console_call:
            session = await self.signed_in(http, used=False)
            caller, until = await self.manager(session), math.inf
        else:
            authorization = http.get_header("Authorization")
            until = await self._access.until(http.get_header(self._key_header), authorization)
            caller = await self._access.caller(authorization)
        caller.check(customer)
        endpoint.permit(caller, customer)
        return until if caller.grants[customer] == grant else 0.0
