"""Pending sign-ins by providers, sealed in the browser's cookie.

They are valid once and for ten minutes. The state binds the provider's answer to the browser (RFC 6749, section 10.12).
The nonce does so for the identity token (OpenID Connect Core, section 3.1.2.1), and the verifier for the code (PKCE,
RFC 7636).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field

from keyrack.auth import browser_state
from keyrack.auth.sso.errors import NotSignedIn
from keyrack.core.secret_hashes import new_secret
from keyrack.db.connection import Statements
from keyrack.db.encryption.cipher import Encryption

LONGEST_NEXT = 2_000  # characters of the target page, as JSON: longer ones do not fit into a cookie


@dataclass(frozen=True, slots=True)
class LoginStart:
    """The purpose of a sign-in."""

    next: str  # the target page
    time_zone: str | None = None  # of the browser
    manager: int | None = None  # connects an account with this manager instead of signing in
    invitation: bytes | None = None  # the digest of an invitation's code, if one is accepted


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A pending sign-in, with values that the provider must return."""

    provider: int
    start: LoginStart
    state: str = field(default_factory=new_secret)
    nonce: str = field(default_factory=new_secret)
    verifier: str = field(default_factory=new_secret)

    @property
    def challenge(self) -> str:
        """The `S256` of the verifier (RFC 7636, section 4.2)."""
        return urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


async def add_to_cookie(vault: Encryption, purpose: str, cookie: str | None, pending: PendingLogin) -> str:
    """The value of the browser's cookie with this sign-in added."""
    start = pending.start
    return await browser_state.add(vault, purpose, cookie, {
        "provider": pending.provider, "state": pending.state, "nonce": pending.nonce, "verifier": pending.verifier,
        "next": start.next if len(json.dumps(start.next)) <= LONGEST_NEXT else "", "time_zone": start.time_zone,
        "manager": start.manager, "invitation": start.invitation.hex() if start.invitation else None,
    })  # fmt: skip


async def find(vault: Encryption, purpose: str, cookie: str | None, state: str) -> PendingLogin:
    """The pending sign-in with this state.

    Raises `NotSignedIn` if it has expired, or was begun in another browser.
    """
    for kept in await browser_state.valid(vault, purpose, cookie):
        if hmac.compare_digest(kept["state"].encode(), state.encode()):
            invitation = bytes.fromhex(kept["invitation"]) if kept["invitation"] else None
            start = LoginStart(kept["next"], kept["time_zone"], kept["manager"], invitation)
            return PendingLogin(kept["provider"], start, state, kept["nonce"], kept["verifier"])
    raise NotSignedIn("lapsed", "this browser has no pending sign-in with this state")


async def use(statements: Statements, pending: PendingLogin) -> None:
    """Use up a sign-in. Raises `NotSignedIn` if that was done before, in any process."""
    if not await browser_state.use(statements, pending.state):
        raise NotSignedIn("lapsed", "the sign-in was finished before")
