"""Access data of an API client: server address, login and token."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

EARLY = 30.0  # seconds before its expiry that a token is renewed: requests take time, and clocks differ


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server, and the headers that identify the caller."""

    url: str  # with the base path, as in https://keyrack.example.com/v3
    api_key: str = field(repr=False)
    customer: int | None = None  # None for requests without Customer-ID
    brand: str = "vendor"  # of the API key's header

    @property
    def base(self) -> str:
        return self.url.rstrip("/")

    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        headers = {f"{self.brand}-API-Key": self.api_key}
        return headers if self.customer is None else headers | {"Customer-ID": str(self.customer)}


@dataclass(frozen=True, slots=True)
class Login:
    """Name and password, for the password grant (RFC 6749, section 4.3)."""

    username: str
    password: str = field(repr=False)

    def form(self) -> dict[str, str]:
        return {"grant_type": "password", "username": self.username, "password": self.password}


@dataclass(frozen=True, slots=True)
class StoredToken:
    """The answer of the token endpoint.

    `refresh` is set if the server issues refresh tokens (RFC 6749, section 6).
    """

    access: str = field(repr=False)
    ends: float | None = None  # seconds since 1970; None if unknown
    refresh: str | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        return self.ends is not None and time.time() > self.ends - EARLY
