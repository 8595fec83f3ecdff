"""A customer's policy for keys: limit, uncertain clocks and approvals."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import LiteralString, TypedDict

from keyrack.db.connection import Connection, Statements
from keyrack.offline_keys.issuing_keys import lock

GET: LiteralString = """
select freshness, opens_uncertain, needs_second_person, approves_phones from key_authority where customer_id = $1
"""
SET: LiteralString = """
update key_authority set freshness = $2, opens_uncertain = $3, needs_second_person = $4, approves_phones = $5
where customer_id = $1
"""
# Keys that exceed a policy: with a limit above $2, if that is not null, or with right 3, if $3
_BEYOND: LiteralString = """
 where customer_id = $1 and is_placed and revoked_at is null and (freshness > $2::integer or ($3 and 3 = any(rights)))
"""
COUNT_BEYOND: LiteralString = "select count(*)::integer from box_key" + _BEYOND
REVOKE_BEYOND: LiteralString = (
    "with revoked as (update box_key set revoked_at = clock_timestamp()"
    + _BEYOND
    + "returning true) select count(*)::integer from revoked"
)


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """A customer's policy for keys."""

    freshness: int | None  # seconds for which a key opens without news from the server; None: its whole life
    opens_uncertain: bool  # whether boxes open while their clock is uncertain
    needs_second_person: bool  # whether another manager must approve an enrolment that replaces a box in use
    approves_phones: bool  # whether a manager must approve a new phone before it gets keys


class PolicyParts(TypedDict, total=False):
    """The parts of a policy that a caller changes, as in `KeyPolicy`."""

    freshness: int | None
    opens_uncertain: bool
    needs_second_person: bool
    approves_phones: bool


async def read(statements: Statements, customer: int) -> KeyPolicy | None:
    """The customer's policy; None without an authority."""
    row = await statements.fetchrow(GET, customer)
    return None if row is None else KeyPolicy(**row)


async def count_beyond(statements: Statements, customer: int, parts: PolicyParts) -> int | None:
    """The number of keys that a change of these parts would revoke.

    None without an authority.
    """
    before = await read(statements, customer)
    if before is None:
        return None
    count: int = await statements.fetchval(COUNT_BEYOND, customer, *_revocable(before, parts))
    return count


async def change(connection: Connection, customer: int, parts: PolicyParts) -> tuple[KeyPolicy, int] | None:
    """Change parts of the policy, and revoke keys that exceed it.

    Returns the new policy and the number of revoked keys; None without an authority. The change waits for transactions
    that issue keys, and later ones see the new policy. The other parts keep the values of other transactions.
    """
    await lock(connection, customer)
    before = await read(connection, customer)
    if before is None:
        return None
    policy = replace(before, **parts)
    await connection.execute(SET, customer, *astuple(policy))
    revoked: int = await connection.fetchval(REVOKE_BEYOND, customer, *_revocable(before, parts))
    return policy, revoked


def _revocable(before: KeyPolicy, parts: PolicyParts) -> tuple[int | None, bool]:
    """The largest limit, or None, and whether right 3 revokes a key.

    A part that is wider than before, or is not named, revokes nothing. A named part that stays the same revokes keys
    that an older release left. Limit and uncertain clocks count as named together.
    """
    if not {"freshness", "opens_uncertain"} & parts.keys():
        return None, False
    policy = replace(before, **parts)
    is_wider = before.freshness is not None and (policy.freshness is None or policy.freshness > before.freshness)
    return None if is_wider else policy.freshness, not policy.opens_uncertain
