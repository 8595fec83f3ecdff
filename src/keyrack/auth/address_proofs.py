"""Proofs that an account's address is its manager's.

The first proof removes every sign-in method that was set before.

An account with an unproven address works for the customers that it acts for, and for no further one. Its password may
be that of a person who has never read a mail of that address (account pre-hijacking: Sudhodanan and Paverd, USENIX
Security 2022).
"""

from __future__ import annotations

from enum import StrEnum
from typing import LiteralString

from keyrack.auth import sign_in_methods
from keyrack.db.connection import Connection

# Locked until the transaction ends: two first proofs wait for each other, and so does a new passkey
IS_PROVEN: LiteralString = """
select proven_at is not null from manager where manager_id = $1 for no key update
"""
PROVE: LiteralString = """
update manager set proven_at = now(), proven_by = $2, password_hash = $3, sign_outs = sign_outs + 1
where manager_id = $1 and proven_at is null returning true
"""


class ProofSource(StrEnum):
    """The evidence by which an address was proven."""

    MAIL = "mail"  # a link that was mailed to it
    PROVIDER = "provider"  # an identity with this verified address, in a domain of its provider
    OPERATOR = "operator"  # a command


class AddressUnproven(ValueError):
    """The address is not proven, so the account joins no further customer."""


async def lock(connection: Connection, manager: int) -> bool:
    """Lock the manager until the caller's transaction ends.

    Returns whether its address is proven.
    """
    return bool(await connection.fetchval(IS_PROVEN, manager))


async def prove(connection: Connection, manager: int, source: ProofSource, password_hash: str | None = None) -> bool:
    """Record the first proof, and remove every earlier sign-in method.

    Returns False if the address was proven already. Runs in the caller's transaction. `password_hash` is the only
    sign-in method afterwards. Without it the caller sets another one.
    """
    if not await connection.fetchval(PROVE, manager, source, password_hash):
        return False
    await sign_in_methods.remove_all(connection, manager)
    return True
