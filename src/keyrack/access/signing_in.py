"""In charge of signing in with a password: for tokens and for sessions alike."""

from __future__ import annotations

from keyrack.access.auth import Access, SignedIn
from keyrack.access.guessing import guarded
from keyrack.database.connection import Statements
from keyrack.errors import WrongCredentials
from keyrack.settings import Settings


async def sign_in(
    statements: Statements, access: Access, settings: Settings, username: str, password: str, address: str
) -> SignedIn:
    """The manager of a user name and a password. Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`."""

    async def look(network: str) -> SignedIn | None:
        return await access.verified(username, password, network)

    signed_in = await guarded(statements, settings, username, address, look)
    if signed_in is None:
        raise WrongCredentials
    return signed_in
