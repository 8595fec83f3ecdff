"""In charge of slowing down who guesses: passwords of people and secrets of programs alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import LiteralString, TypeVar

import structlog

from keyrack.access.digests import digest
from keyrack.access.limits import Limit, Taken, give_back_each, network, shown, take_each
from keyrack.database.connection import Statements
from keyrack.errors import TooManyRequests
from keyrack.metrics.measures import LOG_INS
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.log-ins")

V = TypeVar("V")
COMPARED: LiteralString = "select lower($1)"  # a name as the database compares it; Python's `lower` differs


async def guarded(
    statements: Statements, settings: Settings, name: str, address: str, look: Callable[[str], Awaitable[V | None]]
) -> V | None:
    """What `look` finds for the network that it is given, of somebody who says to have this name; None is a wrong
    guess. Raises `TooManyRequests`, and what `look` raises.

    Every try is taken from three buckets, and given back when it was right: the address's, that of the name at this
    address, and the name's. The last one is far larger than the others: who has used up the first two takes nothing
    from it, so no single address locks out whom it can name. It bounds what many addresses may guess together.
    """
    whose = network(address)
    named = digest(await statements.fetchval(COMPARED, name)).hex()
    tried: tuple[Taken, ...] = (
        (Limit("address", settings.address_rate, settings.address_burst), whose),
        (Limit("login", settings.login_rate, settings.login_burst), f"{named} {whose}"),
        (Limit("name", settings.name_rate, settings.name_burst), named),
    )
    try:
        await take_each(statements, *tried)
    except TooManyRequests:
        LOG_INS.add("limited")
        raise
    try:
        found = await look(whose)
    except Exception:  # whether it was right is not known
        LOG_INS.add("failed")
        await give_back_each(statements, *tried)
        raise
    if found is None:
        LOG_INS.add("wrong")
        log.warning("log-in refused", address=shown(address))  # programs read it: docs/operating.md
        return None
    LOG_INS.add("accepted")
    await give_back_each(statements, *tried)
    return found
