"""Throttling of guesses: passwords, codes, and secrets of clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from keyrack.api.rate_limits import Bucket, RateLimit, give_back_each, loggable_address, per_network, take_each
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
    """Take one attempt from each limit on signing in.

    The attempt is from `address`, for the account that is called `name`. It is returned unless the block reports wrong
    credentials. Raises `TooManyRequests`.
    """
    tried = _tries(settings, address, name)
    await take_limits(statements, *tried)
    try:
        yield
    except (WrongCredentials, InvalidClient):
        LOGINS.add("wrong")
        log.warning("login failed", address=loggable_address(address))  # other programs read it: docs/monitoring.md
        raise
    except Exception:  # unknown whether it was right
        LOGINS.add("failed")
        await give_back_each(statements, *tried)
        raise
    LOGINS.add("accepted")
    await give_back_each(statements, *tried)


async def take_limits(statements: Statements, *limits: Bucket) -> None:
    """Take one from each limit on signing in, or none. Raises `TooManyRequests`."""
    try:
        await take_each(statements, *limits)
    except TooManyRequests:
        LOGINS.add("limited")
        raise


def address_limits(settings: Settings, address: str, name: str = "address") -> tuple[Bucket, ...]:
    """The limits of an address, by the settings of failed log-ins.

    Limits of another `name` count separately.
    """
    return per_network(RateLimit(name, settings.login_rate_per_address, settings.login_burst_per_address), address)


def _tries(settings: Settings, address: str, name: str | None) -> tuple[Bucket, ...]:
    """The limits of an attempt: address, name at the address, and name.

    Those of an IPv6 address include its /56 and /48. The limit of the name is far larger than the others, and an
    attempt that these reject takes nothing from it. So no address, and no /48, locks a name for others. It bounds the
    guesses of many networks together.
    """
    of_address = address_limits(settings, address)
    if name is None:
        return of_address
    named = digest(address_form(name)).hex()
    per_name_there = RateLimit(
        "login", settings.login_rate_per_username_and_address, settings.login_burst_per_username_and_address
    )
    of_name_there = ((limit, f"{named} {network}") for limit, network in per_network(per_name_there, address))
    of_name = RateLimit("name", settings.login_rate_per_username, settings.login_burst_per_username), named
    return (*of_address, *of_name_there, of_name)
