"""CORS (Fetch standard): origins, request headers and response headers of pages of other origins."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import falcon.asgi

from keyrack.api.exchange import Response
from keyrack.core.settings import Settings
from keyrack.http.request_state import request_state

ANY = b"*"
METHOD = "Access-Control-Request-Method"

# Request headers of pages, beyond the ones that CORS always allows
SENT = (
    "Authorization", "Content-Encoding", "Content-Type", "Customer-ID", "Device-Key", "Idempotency-Key", "If-Match",
    "If-None-Match", "Keyrack-Mode", "Keyrack-Position", "Last-Event-ID", "Prefer", "traceparent", "tracestate",
    "X-Request-Id",
)  # fmt: skip
# Response headers for pages, beyond the ones that CORS always exposes
SEEN = (
    "Changes-Epoch", "Changes-Newest", "Changes-Oldest", "ETag", "Idempotency-Replayed", "Keyrack-Ignored",
    "Keyrack-Mode", "Keyrack-Position", "Last-Event-ID", "Link", "Location", "Operation-Id", "Operation-Location",
    "Preference-Applied", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-Id", "X-Total-Count",
)  # fmt: skip


class Cors:
    """The allowed origins of `cors_origins`.

    Credentials such as cookies are never allowed. Callers send keys and tokens in headers, which a page must know and
    no browser adds by itself. So `*` gives a page nothing that its own server could not get with the same token.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(origin.encode() for origin in settings.origins)
        self._exposed = ", ".join(SEEN).encode()
        self._request_headers = ", ".join((*SENT, f"{settings.brand}-API-Key"))
        self._max_age = str(settings.cors_max_age)

    def wrap_send(self, scope: dict[str, Any], send: Any) -> Any:
        """Wrap `send` so that every response has the CORS headers."""
        given = [value for name, value in scope["headers"] if name == b"origin"]
        allowed = self._allowed(given[0]) if len(given) == 1 else None
        if allowed is not None:
            request_state(scope).has_allowed_origin = True

        async def sends(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._with_headers(message["headers"], allowed)
            await send(message)

        return sends

    def asks(self, http: falcon.asgi.Request) -> bool:
        """Whether this is a preflight of an allowed origin.

        A preflight has neither key nor token.
        """
        is_allowed = request_state(http.scope).has_allowed_origin
        return http.method == "OPTIONS" and is_allowed and http.get_header(METHOD) is not None

    def preflight(self, methods: Collection[str]) -> Response:
        """The response to a preflight, for a path with these methods."""
        known_methods = {*methods, *(("HEAD",) if "GET" in methods else ())}
        return Response(
            204,
            headers={
                "Access-Control-Allow-Methods": ", ".join(sorted(known_methods)),
                "Access-Control-Allow-Headers": self._request_headers,
                "Access-Control-Max-Age": self._max_age,
            },
        )

    def _allowed(self, origin: bytes) -> bytes | None:
        """The allowed origin for the response, or None.

        `*` does not cover `null`, the origin of sandboxed pages.
        """
        if ANY in self._origins:
            return None if origin.lower() == b"null" else ANY
        return origin if origin.lower() in self._origins else None

    def _with_headers(self, headers: Iterable[tuple[bytes, bytes]], allowed: bytes | None) -> list[tuple[bytes, bytes]]:
        headers = list(headers)
        others = [value for name, value in headers if name == b"vary"]
        headers = [(name, value) for name, value in headers if name != b"vary"]
        headers.append((b"vary", b", ".join([*others, b"Origin"])))
        if allowed is not None:
            headers = [(name, value) for name, value in headers if name != b"access-control-allow-origin"]
            headers.append((b"access-control-allow-origin", allowed))
            headers.append((b"access-control-expose-headers", self._exposed))
        return headers
