"""In charge of slowing down who guesses: passwords and codes of people, and secrets of programs alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from keyrack.api.rate_limits import RateLimit, Taken, give_back_each, network, shown, take_each
from keyrack.core.addresses import address_form
from keyrack.core.errors import InvalidClient, TooManyRequests, WrongCredentials
from keyrack.core.metrics.catalog import LOGINS
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Statements

log = structlog.get_logger("keyrack.logins")


@asynccontextmanager
async def raise_if_throttled(
    statements: Statements, settings: Settings, address: str, name: str | None = None
) -> AsyncGenerator[None]:
    """A try from this address, of somebody who says to have this name: taken from each bucket, and given back unless
    the block says that it was wrong. Raises `TooManyRequests`."""
    tried = _tries(settings, network(address), name)
    try:
        await take_each(statements, *tried)
    except TooManyRequests:
        LOGINS.add("limited")
        raise
    try:
        yield
    except (WrongCredentials, InvalidClient):
        LOGINS.add("wrong")
        log.warning("login failed", address=shown(address))  # programs read it: docs/operating.md
        raise
    except Exception:  # whether it was right is not known
        LOGINS.add("failed")
        await give_back_each(statements, *tried)
        raise
    LOGINS.add("accepted")
    await give_back_each(statements, *tried)


def _tries(settings: Settings, whose: str, name: str | None) -> tuple[Taken, ...]:
    """The three buckets of a try: the address's, that of the name at this address, and the name's.

    The last one is far larger than the others: who has used up the first two takes nothing from it, so no single
    address locks out whom it can name. It bounds what many addresses may guess together.
    """
    of_address = (RateLimit("address", settings.login_rate_per_address, settings.login_burst_per_address), whose)
    if name is None:
        return (of_address,)
    named = digest(address_form(name)).hex()
    return (
        of_address,
        (
            RateLimit(
                "login", settings.login_rate_per_username_and_address, settings.login_burst_per_username_and_address
            ),
            f"{named} {whose}",
        ),
        (RateLimit("name", settings.login_rate_per_username, settings.login_burst_per_username), named),
    )
