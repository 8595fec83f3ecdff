"""A sequence of recorded requests."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

from tests.recordings.bench import Bench
from tests.recordings.cast import ALICE, PASSWORD, address
from tests.recordings.session import BASE, Call, Caller
from tests.recordings.wire import HOST, Response

ORIGIN = f"http://{HOST}"


class Script:
    """Sends requests one after the other, as the owner unless another caller is given."""

    def __init__(self, bench: Bench, section: str) -> None:
        self.bench, self.session, self.cast, self.fleet = bench, bench.session, bench.cast, bench.fleet
        self.session.section = section
        self.section = section

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        caller: Caller | None = None,
        note: str = "",
        until: bytes | None = None,
        base: str = BASE,
        **headers: str | None,
    ) -> Response:
        """Record a request. Names of headers have underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        call = Call(method, path, body, named)
        who = caller or self.cast.owner
        title = f"{method} {path} as {who.name}" + (f", {note}" if note else "")
        return self.session.record(who, call, self.session.masks.title(title), base=base, until=until)

    def made(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Record a request that must succeed, and return its JSON response."""
        response = self.send(method, path, body, **options)
        assert response.status < 300, (method, path, response.status, response.body)
        return json.loads(response.body) if response.body else None

    def tag(self, path: str) -> str:
        """The ETag of a read."""
        return self.send("GET", path).header("ETag") or ""


def browser(bench: Bench, name: str, *, language: str = "en") -> Caller:
    """A browser with the session of a manager."""
    session = bench.session
    form = urlencode({"username": address(name), "password": PASSWORD})
    who = Caller(f"browser of {name}", {"Origin": ORIGIN, "Accept-Language": language})
    response = session.send(who, Call("POST", "/console/sign-in", form), base="")
    return with_cookies(bench, who, response)


def with_cookies(bench: Bench, who: Caller, response: Response) -> Caller:
    """The browser after a response that sets cookies."""
    values = [value.partition(";")[0] for name, value in response.headers if name.lower() == "set-cookie"]
    for value in values:
        cookie = value.partition("=")[2]
        if cookie:
            bench.session.masks.name(cookie, f"cookie of {who.name}")
    return who.with_headers(who.name, {"Cookie": "; ".join(values), "Customer-ID": str(ALICE)})


def totp(secret: str, skew: int = 0) -> str:
    """The code of an authenticator app (RFC 6238)."""
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.digest(key, (int(time.time()) // 30 + skew).to_bytes(8, "big"), "sha1")
    place = digest[-1] & 15
    return f"{(int.from_bytes(digest[place : place + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"
