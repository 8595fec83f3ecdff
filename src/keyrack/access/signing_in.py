"""In charge of signing in with a password, slowed for who guesses: for tokens and for sessions alike."""

from __future__ import annotations

from typing import LiteralString

import structlog

from keyrack.access.auth import Access, SignedIn, digest
from keyrack.access.limits import Limit, Taken, give_back_each, network, shown, take_each
from keyrack.database.connection import Statements
from keyrack.errors import TooManyRequests, WrongCredentials
from keyrack.metrics.measures import LOG_INS
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.log-ins")

COMPARED: LiteralString = "select lower($1)"  # a name as the database compares it; Python's `lower` differs


async def sign_in(
    statements: Statements, access: Access, settings: Settings, username: str, password: str, address: str
) -> SignedIn:
    """The manager of a user name and a password. Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`.

    Every try is taken from three buckets, and given back when it was right: the address's, that of the name at this
    address, and the name's. The last one is far larger than the others: who has used up the first two takes nothing
    from it, so no single address locks out whom it can name. It bounds what many addresses may guess together.
    """
    whose = network(address)
    name = digest(await statements.fetchval(COMPARED, username)).hex()
    tried: tuple[Taken, ...] = (
        (Limit("address", settings.address_rate, settings.address_burst), whose),
        (Limit("login", settings.login_rate, settings.login_burst), f"{name} {whose}"),
        (Limit("name", settings.name_rate, settings.name_burst), name),
    )
    try:
        await take_each(statements, *tried)
    except TooManyRequests:
        LOG_INS.add("limited")
        raise
    try:
        signed_in = await access.verified(username, password, whose)
    except Exception:  # whether it was right is not known
        LOG_INS.add("failed")
        await give_back_each(statements, *tried)
        raise
    if signed_in is None:
        LOG_INS.add("wrong")
        log.warning("log-in refused", address=shown(address))  # programs read it: docs/operating.md
        raise WrongCredentials
    LOG_INS.add("accepted")
    await give_back_each(statements, *tried)
    return signed_in
