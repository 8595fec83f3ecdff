"""The session cookie of the drivers' app, and its origin check."""

from __future__ import annotations

from typing import Any, Protocol

from keyrack.api.exchange import DriverBrowser
from keyrack.auth import browser_state
from keyrack.auth.page_origin import BrowserRequest, PageOrigin
from keyrack.core.settings import Settings
from keyrack.drivers.sessions import MAX_DAYS


class CookieRequest(BrowserRequest, Protocol):
    """The used part of the framework's request."""

    def get_cookie_values(self, name: str) -> Any: ...


class DriverCookies:
    """The session cookie of drivers, as in RFC 6265bis.

    No page of another site causes it to be sent: the app is static, and each call comes from its own pages.
    """

    def __init__(self, settings: Settings) -> None:
        self._is_secure = settings.drive_address.startswith("https:")
        prefix = "__Host-" if self._is_secure else ""
        self._session, self._challenge = f"{prefix}keyrack-drive", f"{prefix}keyrack-drive-challenge"
        self._origin = PageOrigin(settings.drive_origins, is_secure=self._is_secure)

    def check_origin(self, http: BrowserRequest) -> None:
        """Raises `Forbidden` for a write from a page outside of the app."""
        self._origin.check(http)

    def secret(self, http: CookieRequest) -> str | None:
        """The sent session secret; None if the cookie is repeated."""
        return _one(http, self._session)

    def browser(self, http: CookieRequest) -> DriverBrowser:
        """The browser's headers, its session and its pending challenges."""
        agent, languages = http.get_header("User-Agent") or "", http.get_header("Accept-Language")
        return DriverBrowser(agent, languages, _one(http, self._challenge), self.secret(http))

    def cookie(self, secret: str) -> str:
        """The `Set-Cookie` of a session."""
        return self._cookie(self._session, secret, MAX_DAYS * 86_400)

    def no_cookie(self) -> str:
        """The `Set-Cookie` that removes it."""
        return self._cookie(self._session, "", 0)

    def challenge_cookie(self, value: str) -> str:
        """The `Set-Cookie` of pending passkey challenges."""
        return self._cookie(self._challenge, value, browser_state.SECONDS)

    def _cookie(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._is_secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _one(http: CookieRequest, name: str) -> str | None:
    values: list[str] = http.get_cookie_values(name) or []
    return values[0] if len(values) == 1 else None
