"""In charge of signing in with a password, a code or a passkey, slowed for who guesses: for tokens and for sessions
alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

import structlog

from keyrack.access import codes, passkeys, steps
from keyrack.access.auth import Access, SignedIn, digest
from keyrack.access.limits import Limit, Taken, give_back_each, network, shown, take_each
from keyrack.database.connection import Database, Statements
from keyrack.errors import TooManyRequests, WrongCredentials
from keyrack.metrics.measures import LOG_INS
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.log-ins")

COMPARED: LiteralString = "select lower($1)"  # a name as the database compares it; Python's `lower` differs


async def sign_in(
    statements: Statements, access: Access, settings: Settings, username: str, password: str, address: str
) -> SignedIn:
    """The manager of a user name and a password. Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`."""
    async with _slowed(statements, *await _tries(statements, settings, username, address), address=address):
        signed_in = await access.verified(username, password, network(address))
        if signed_in is None:
            raise WrongCredentials
    return signed_in


async def show_code(
    statements: Statements, access: Access, settings: Settings, secret: str, given: str, address: str
) -> tuple[SignedIn, str | None] | None:
    """Who has shown a code, of the app or for recovery, after a right password, and the time zone that the browser
    said; None where that is over, or was tried too often. Raises as `sign_in` does: a wrong code costs like a wrong
    password."""
    step = await steps.find(statements, secret)
    if step is None or not await steps.attempt(statements, secret):
        return None
    async with _slowed(statements, *await _tries(statements, settings, step.username, address), address=address):
        if not (
            await codes.use(statements, access.vault, step.manager, given)
            or await codes.use_recovery(statements, step.manager, given)
        ):
            raise WrongCredentials
    if not await steps.end(statements, secret):
        return None
    return SignedIn(step.manager, step.subject, step.sign_outs, ("pwd", "otp", "mfa")), step.time_zone


async def show_passkey(db: Database, settings: Settings, secret: str, credential: str, address: str) -> SignedIn:
    """Whose passkey has signed the browser's challenge. Raises `WrongCredentials`, `TooManyRequests`."""
    async with _slowed(db, _of_address(settings, network(address)), address=address):
        signed_in = await passkeys.signed_in(db, settings, secret, credential)
        if signed_in is None:
            raise WrongCredentials
    return signed_in


async def _tries(statements: Statements, settings: Settings, username: str, address: str) -> tuple[Taken, ...]:
    """The three buckets of a try: the address's, that of the name at this address, and the name's.

    The last one is far larger than the others: who has used up the first two takes nothing from it, so no single
    address locks out whom it can name. It bounds what many addresses may guess together.
    """
    whose = network(address)
    name = digest(await statements.fetchval(COMPARED, username)).hex()
    return (
        _of_address(settings, whose),
        (Limit("login", settings.login_rate, settings.login_burst), f"{name} {whose}"),
        (Limit("name", settings.name_rate, settings.name_burst), name),
    )


def _of_address(settings: Settings, whose: str) -> Taken:
    return Limit("address", settings.address_rate, settings.address_burst), whose


@asynccontextmanager
async def _slowed(statements: Statements, *tried: Taken, address: str) -> AsyncGenerator[None]:
    """A try: taken from each bucket, and given back unless the block says that it was wrong."""
    try:
        await take_each(statements, *tried)
    except TooManyRequests:
        LOG_INS.add("limited")
        raise
    try:
        yield
    except WrongCredentials:
        LOG_INS.add("wrong")
        log.warning("log-in refused", address=shown(network(address)))  # programs read it: docs/operating.md
        raise
    except Exception:  # whether it was right is not known
        LOG_INS.add("failed")
        await give_back_each(statements, *tried)
        raise
    LOG_INS.add("accepted")
    await give_back_each(statements, *tried)
