"""Session cookies, and the check that a write comes from an own page."""

from __future__ import annotations

from typing import Any, Protocol

from keyrack.auth import browser_state
from keyrack.auth.login_challenges import SECONDS
from keyrack.auth.page_origin import BrowserRequest, PageOrigin
from keyrack.core.settings import Settings

API_OF_PAGES = "/console/api"  # path for calls of console pages: the session replaces key and token


class CookieRequest(BrowserRequest, Protocol):
    """The used part of the framework's request."""

    def get_cookie_values(self, name: str) -> Any: ...


class SessionCookies:
    """Session cookies as in RFC 6265bis.

    If the public address has https, their prefix `__Host-` binds them to this host and to https.
    """

    def __init__(self, settings: Settings) -> None:
        self._secure = settings.public_url.startswith("https:")
        self._name = "__Host-keyrack-session" if self._secure else "keyrack-session"
        self._step = "__Host-keyrack-step" if self._secure else "keyrack-step"
        self._challenge = "__Host-keyrack-challenge" if self._secure else "keyrack-challenge"
        self._seconds = settings.session_hours * 3600
        self._origin = PageOrigin(settings.own_origins, is_secure=self._secure)

    def secret(self, http: CookieRequest) -> str | None:
        """The session secret that the browser sent; None if the cookie is repeated."""
        return _one(http, self._name)

    def cookie(self, secret: str) -> str:
        """The `Set-Cookie` of a session."""
        return self._cookie(secret, self._seconds, self._name, "Lax")

    def no_cookie(self) -> str:
        """The `Set-Cookie` that removes it."""
        return self._cookie("", 0, self._name, "Lax")

    def step(self, http: CookieRequest) -> str | None:
        """The secret of the pending second factor; None if the cookie is repeated."""
        return _one(http, self._step)

    def challenge(self, http: CookieRequest) -> str | None:
        """The sealed challenges for a passkey; None if the cookie is repeated."""
        return _one(http, self._challenge)

    def step_cookie(self, secret: str) -> str:
        """The `Set-Cookie` of a pending second factor. Pages of other sites never cause it to be sent."""
        return self._cookie(secret, SECONDS, self._step, "Strict")

    def challenge_cookie(self, value: str) -> str:
        """The `Set-Cookie` of pending passkey challenges."""
        return self._cookie(value, browser_state.SECONDS, self._challenge, "Strict")

    def _cookie(self, value: str, seconds: int, name: str, site: str) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site}{secure}"

    def check_origin(self, http: CookieRequest) -> None:
        """Raises `Forbidden` for a write from a page of another origin."""
        self._origin.check(http)


def _one(http: CookieRequest, name: str) -> str | None:
    values: list[str] = http.get_cookie_values(name) or []
    return values[0] if len(values) == 1 else None
