"""Address proofs: who has an account's address, and what the first proof removes.

An account with an unproven address works for the customers that it acts for, and for no further one. Its password may
be that of a person who has never read a mail of that address (account pre-hijacking: Sudhodanan and Paverd, USENIX
Security 2022).
"""

from __future__ import annotations

from enum import StrEnum
from typing import LiteralString

from keyrack.auth import sign_in_methods
from keyrack.db.connection import Connection

# Locked until the transaction ends: two first proofs wait for one another, and so does a new passkey
IS_PROVEN: LiteralString = """
select proven_at is not null from manager where manager_id = $1 for no key update
"""
PROVE: LiteralString = """
update manager set proven_at = now(), proven_by = $2, password_hash = $3, sign_outs = sign_outs + 1
where manager_id = $1 and proven_at is null returning true
"""


class ProofSource(StrEnum):
    """The proof of an address."""

    MAIL = "mail"  # a link that was mailed to it
    PROVIDER = "provider"  # an identity with this verified address, in a domain of its provider
    OPERATOR = "operator"  # a command


class AddressUnproven(ValueError):
    """The account acts for no further customer until its address is proven."""


async def lock(connection: Connection, manager: int) -> bool:
    """Lock the manager until the caller's transaction ends: whether its address is proven."""
    return bool(await connection.fetchval(IS_PROVEN, manager))


async def prove(connection: Connection, manager: int, source: ProofSource, password_hash: str | None = None) -> bool:
    """Record the first proof, and remove every way in that was set before it; False if the address was proven already.

    In the caller's transaction. `password_hash` is the only way in afterwards; without it the caller gives another one.
    """
    if not await connection.fetchval(PROVE, manager, source, password_hash):
        return False
    await sign_in_methods.remove_all(connection, manager)
    return True
