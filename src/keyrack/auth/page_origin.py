"""The origin check of writes from browsers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from keyrack.core.error_codes import OTHER_ORIGIN
from keyrack.core.errors import Forbidden

READS = ("GET", "HEAD")  # endpoints with these methods change nothing


class BrowserRequest(Protocol):
    """The used part of the framework's request."""

    @property
    def method(self) -> str: ...
    def get_header(self, name: str) -> str | None: ...


class PageOrigin:
    """The origins of own pages."""

    def __init__(self, origins: Collection[str], *, is_secure: bool) -> None:
        self._origins = origins
        self._is_secure = is_secure

    def check(self, http: BrowserRequest) -> None:
        """Raises `Forbidden` for a write from a page of another origin.

        `Sec-Fetch-Site` must be `same-origin` if it is present. `Origin`, if present, must be that of the public
        address. Without https it may also be that of the requested host. A request with neither header is rejected:
        every current browser sends at least one with a write.
        """
        if http.method in READS:
            return
        site, origin = http.get_header("Sec-Fetch-Site"), http.get_header("Origin")
        if site not in (None, "same-origin") or (origin is None and site is None):
            raise Forbidden(OTHER_ORIGIN)
        if origin is not None and not self._is_own(origin.lower(), (http.get_header("Host") or "").lower()):
            raise Forbidden(OTHER_ORIGIN)

    def _is_own(self, origin: str, host: str) -> bool:
        return origin in self._origins or (not self._is_secure and bool(host) and origin == f"http://{host}")
