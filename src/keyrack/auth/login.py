"""Sign-in with password, code or passkey, for tokens and sessions."""

from __future__ import annotations

from typing import Any

from keyrack.api.rate_limits import give_back_each, network, take_each
from keyrack.auth import code_throttle, login_challenges, passkeys, totp
from keyrack.auth.authenticator import AuthenticatedManager, Authenticator
from keyrack.auth.login_throttle import address_limits, raise_if_throttled
from keyrack.core.errors import WrongCredentials
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.encryption.cipher import Encryption

CHALLENGES = "challenge"  # the name of the limits on challenges for passkeys


async def sign_in(
    statements: Statements, access: Authenticator, settings: Settings, username: str, password: str, address: str
) -> AuthenticatedManager:
    """The manager of a user name and a password. Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`."""
    async with raise_if_throttled(statements, settings, address, username):
        signed_in = await access.verified(username, password, network(address))
        if signed_in is None:
            raise WrongCredentials
    return signed_in


async def show_code(
    statements: Statements, access: Authenticator, settings: Settings, secret: str, given: str, address: str
) -> tuple[AuthenticatedManager, str | None] | None:
    """Finish a sign-in with an app code or a recovery code.

    Returns the manager and the browser's time zone. Returns None if the sign-in has expired, or has no attempts left.
    Raises as `sign_in` does: a wrong code costs as much as a wrong password.
    """
    step = await login_challenges.find(statements, secret)
    if step is None or not await login_challenges.attempt(statements, secret):
        return None
    await check_code(statements, access, settings, step.manager, step.username, given, address)
    if not await login_challenges.end(statements, secret):
        return None
    amr = (*step.amr, "otp", "mfa")
    return AuthenticatedManager(step.manager, step.subject, step.sign_outs, amr, provider=step.provider), step.time_zone


async def check_code(
    statements: Statements, access: Authenticator, settings: Settings, manager: int, username: str, given: str,
    address: str,
) -> None:  # fmt: skip
    """Use up a code of the manager's app, or a recovery code. Raises as `sign_in` does."""
    if not totp.is_code(given):
        async with raise_if_throttled(statements, settings, address, username):
            if not await totp.use_recovery(statements, manager, given):
                raise WrongCredentials
        return
    async with (
        code_throttle.raise_if_throttled(statements, settings, manager, address),
        raise_if_throttled(statements, settings, address, username),
    ):
        if not await totp.use(statements, access.vault, manager, given):
            raise WrongCredentials


async def challenge_passkey(
    statements: Statements, vault: Encryption, settings: Settings, cookie: str | None, address: str
) -> tuple[dict[str, Any], str] | None:
    """The options to sign in with a passkey, and the new cookie.

    None if passkeys are not available. Raises `TooManyRequests`, `CannotDecrypt`.
    """
    await take_each(statements, *address_limits(settings, address, CHALLENGES))
    return await passkeys.create_authentication_options(vault, passkeys.MANAGERS, settings, cookie)


async def show_passkey(
    db: Database, vault: Encryption, settings: Settings, cookie: str | None, credential: str, address: str
) -> AuthenticatedManager:
    """The manager whose passkey has signed the browser's challenge.

    Raises `WrongCredentials`, `TooManyRequests`.
    """
    async with raise_if_throttled(db, settings, address):
        shown = await passkeys.verify_authentication(db, vault, passkeys.MANAGERS, settings, cookie, credential)
        if shown is None:
            raise WrongCredentials
    await give_back_each(db, *address_limits(settings, address, CHALLENGES))
    row = shown.row
    return AuthenticatedManager(row["manager_id"], row["handle"], row["sign_outs"], shown.amr)
