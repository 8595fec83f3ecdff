"""In charge of pages of other origins (the CORS protocol of the Fetch standard): which ones may use the interface from
a browser, what they may send, and which headers they may see."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import falcon.asgi

from keyrack.api.exchange import Response
from keyrack.core.settings import Settings
from keyrack.http.request_state import request_state

ANY = b"*"
METHOD = "Access-Control-Request-Method"

# What a page may send beside what every page may
SENT = (
    "Authorization", "Content-Encoding", "Content-Type", "Customer-ID", "Device-Key", "Idempotency-Key", "If-Match",
    "If-None-Match", "Keyrack-Position", "Last-Event-ID", "Prefer", "traceparent", "tracestate", "X-Request-Id",
)  # fmt: skip
# What a page may see of an answer beside what every page may
SEEN = (
    "ETag", "Idempotency-Replayed", "Keyrack-Ignored", "Keyrack-Position", "Last-Event-ID", "Link", "Location",
    "Operation-Id", "Operation-Location", "Preference-Applied", "RateLimit", "RateLimit-Policy", "Retry-After",
    "X-Request-Id", "X-Total-Count",
)  # fmt: skip


class Cors:
    """The origins of `cors_origins`.

    Cookies and the like are never allowed: whoever calls shows keys and tokens in headers, which a page has to know and
    no browser adds by itself. So `*` gives no page anything that its own server could not fetch with the same token.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(origin.encode() for origin in settings.origins)
        self._exposed = ", ".join(SEEN).encode()
        self._request_headers = ", ".join((*SENT, f"{settings.brand}-API-Key"))
        self._max_age = str(settings.cors_max_age)

    def wrap_send(self, scope: dict[str, Any], send: Any) -> Any:
        """What sends the answer of this request, whatever it will be, with what the browser has to know."""
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
        """Whether a browser asks what a page of an allowed origin may send: it asks without key and token."""
        is_allowed = request_state(http.scope).has_allowed_origin
        return http.method == "OPTIONS" and is_allowed and http.get_header(METHOD) is not None

    def preflight(self, methods: Collection[str]) -> Response:
        """What may be sent to a path that knows these methods."""
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
        """How the answer names the origin, if it is an allowed one. `null` is what a page has that is nobody's."""
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
