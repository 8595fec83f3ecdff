"""Offline keys: the authority that signs them, and the policy of a customer."""

from __future__ import annotations

import re
from typing import Annotated, Literal, LiteralString

import typer

from keyrack.cli.commands import key_roots
from keyrack.cli.commands.key_roots import NONE, OFFLINE, Revoke, Whose, overlap
from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.offline_keys import issuing_keys, key_policy
from keyrack.offline_keys.issuing_keys import KeySetOverlap, OfflineRoot, public
from keyrack.offline_keys.key_policy import KeyPolicy, PolicyParts

app = typer.Typer()
app.add_typer(key_roots.app)

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
SHORTEST, LONGEST = 300, 28 * UNITS["d"]  # seconds; the maximum is the lifetime of a key
WRITTEN = re.compile(r"([0-9]{1,7})([smhd]?)").fullmatch

SHOW: LiteralString = """
select c.name, t.public_key, t.sequence, t.freshness, t.opens_uncertain, t.needs_second_person, t.approves_phones,
  (select count(distinct product_id) from box_epoch e where e.customer_id = c.customer_id) as boxes,
  (select count(*) from box_epoch e where e.customer_id = c.customer_id and e.is_pending
    and e.discarded_at is null) as pending,
  (select count(*) from app_device d where d.customer_id = c.customer_id) as devices,
  (select count(*) from app_device d where d.customer_id = c.customer_id and not d.is_approved) as waiting,
  (select count(*) from box_key k where k.customer_id = c.customer_id and k.is_placed and k.revoked_at is null) as keys
from customer c left join key_authority t using (customer_id) where c.customer_id = $1
"""
KEYS: LiteralString = """
select id, kind, public_key, created_at as "createdAt", revoked_at as "revokedAt",
  revoked_at is null and row_number() over (partition by kind, revoked_at is null order by created_at desc, id desc) = 1
    as signs
from (
  select issuing_key_id as id, 'issuing' as kind, public_key, created_at, revoked_at from issuing_key
    where customer_id = $1
  union all select service_key_id, 'service', public_key, created_at, revoked_at from service_key
    where customer_id = $1) k
order by kind, created_at desc, id desc
"""
WAITING: LiteralString = "select count(*) from app_device where customer_id = $1 and not is_approved"
GOES: LiteralString = """
select count(*) from box_key where customer_id = $1 and is_placed and revoked_at is null
"""


def a_limit(text: str) -> int:
    """Seconds, 0 for off. Raises a usage error."""
    if text == "off":
        return 0
    match = WRITTEN(text)
    seconds = int(match[1]) * UNITS[match[2] or "s"] if match else 0
    if not SHORTEST <= seconds <= LONGEST:
        raise typer.BadParameter("must be off, or a time from 300s to 28d such as 48h")
    return seconds


Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", parser=a_limit, metavar="TIME|off",
        help="How long a box accepts a key without news from the server: such as 48h, or off for the key's lifetime.",
    ),
]  # fmt: skip
Uncertain = Annotated[
    Literal["open", "refuse"] | None,
    typer.Option("--uncertain", help="Behaviour of a box whose clock has stopped."),
]
SecondPerson = Annotated[
    Literal["on", "off"] | None,
    typer.Option("--second-person", help="Require a second manager for an enrolment that replaces a box in use."),
]
ApprovePhones = Annotated[
    Literal["on", "off"] | None,
    typer.Option("--approve-phones", help="Require a manager's approval before a new phone gets keys."),
]


@command(app, "show")
async def show(session: DatabaseSession, customer: Whose) -> CommandResult:
    """Show a customer's key authority: its root, its policy, and its boxes, phones and keys."""
    row = await session.sql.fetchrow(SHOW, customer)
    if row is None or row["public_key"] is None:
        raise CommandFailed(NONE.format(customer=customer))
    freshness = row["freshness"]
    value = {
        "customer": customer, "root": public(row["public_key"]).thumbprint.hex(), "sequence": row["sequence"],
        "limit": freshness, "uncertain": "open" if row["opens_uncertain"] else "refuse",
        "secondPerson": _switch(row["needs_second_person"]), "approvePhones": _switch(row["approves_phones"]),
        "boxes": row["boxes"], "pendingEnrolments": row["pending"], "devices": row["devices"],
        "waitingDevices": row["waiting"], "keys": row["keys"],
    }  # fmt: skip
    limit = "off: a key's lifetime" if freshness is None else f"{freshness:,} s"
    lines = (
        f"Root                {value['root']}",
        f"Key set             {value['sequence']}",
        f"Limit               {limit}",
        f"Clock uncertain     {value['uncertain']}",
        f"Second person       {value['secondPerson']}",
        f"Approve phones      {value['approvePhones']}",
        f"Boxes enrolled      {value['boxes']}, of which {value['pendingEnrolments']} with a pending enrolment",
        f"Phones registered   {value['devices']}, of which {value['waitingDevices']} await approval",
        f"Valid keys          {value['keys']}",
    )
    return CommandResult(value, "\n".join(lines))


@command(app, "list")
async def list_(session: DatabaseSession, customer: Whose) -> ListResult:
    """List the issuing and service keys of an authority, newest first."""
    rows = await session.sql.fetch(KEYS, customer)
    shown = [{**row, "kid": public(row["public_key"]).kid.hex()} for row in rows]
    for row in shown:
        del row["public_key"]
    columns = {
        "ID": "id",
        "KIND": "kind",
        "KEY ID": "kid",
        "SIGNS": "signs",
        "SINCE": "createdAt",
        "REVOKED": "revokedAt",
    }
    return ListResult(shown, columns)


def _parts(
    limit: int | None, uncertain: str | None, second_person: str | None, approve_phones: str | None
) -> PolicyParts:
    """The parts of the policy that the options change. Raises a usage error without an option."""
    parts: PolicyParts = {}
    if limit is not None:
        parts["freshness"] = limit or None
    if uncertain is not None:
        parts["opens_uncertain"] = uncertain == "open"
    if second_person is not None:
        parts["needs_second_person"] = second_person == "on"
    if approve_phones is not None:
        parts["approves_phones"] = approve_phones == "on"
    if not parts:
        raise typer.BadParameter("Nothing to change. Give --limit, --uncertain, --second-person or --approve-phones.")
    return parts


async def _policy_preview(
    session: DatabaseSession,
    customer: int,
    limit: int | None,
    uncertain: str | None,
    second_person: str | None,
    approve_phones: str | None,
) -> ConfirmationPreview | None:
    """The number of keys that the policy would revoke. Raises a usage error without an option."""
    parts = _parts(limit, uncertain, second_person, approve_phones)
    count = await key_policy.count_beyond(session.sql, customer, parts)
    if count is None:
        raise CommandFailed(NONE.format(customer=customer))
    if not count:
        return None
    action = f"change the policy of customer {customer} and revoke the keys that exceed it"
    return ConfirmationPreview(action, {"keys": count}, "Phones get new keys at their next fetch.")


@command(app, "policy", preview=_policy_preview)
async def policy(
    session: DatabaseSession,
    customer: Whose,
    limit: Limit = None,
    uncertain: Uncertain = None,
    second_person: SecondPerson = None,
    approve_phones: ApprovePhones = None,
) -> CommandResult:
    """Set a customer's policy for offline keys, and revoke keys that exceed it.

    Phones get new keys at their next fetch. A wider policy revokes nothing.
    """
    changed = await key_policy.change(session.sql, customer, _parts(limit, uncertain, second_person, approve_phones))
    if changed is None:
        raise CommandFailed(NONE.format(customer=customer))
    chosen, revoked = changed
    waiting: int = await session.sql.fetchval(WAITING, customer)
    does = "open" if chosen.opens_uncertain else "refuse"
    value = {
        "customer": customer, "limit": chosen.freshness, "uncertain": does, "revokedKeys": revoked,
        "secondPerson": _switch(chosen.needs_second_person), "approvePhones": _switch(chosen.approves_phones),
        "waitingDevices": waiting,
    }  # fmt: skip
    shown = "its lifetime" if chosen.freshness is None else f"{chosen.freshness:,} seconds"
    text = (
        f"A box accepts a key without news from the server for {shown}. With an uncertain clock, boxes {does}. "
        f"Keys revoked: {revoked:,}.\n{_approvals(chosen, waiting)}"
    )
    return CommandResult(value, text)


def _switch(is_on: bool) -> str:
    return "on" if is_on else "off"


def _approvals(policy: KeyPolicy, waiting: int) -> str:
    """The changes that need a manager's approval, as text."""
    box = "needs the approval of another manager" if policy.needs_second_person else "needs no approval"
    phone = "needs the approval of a manager" if policy.approves_phones else "needs no approval"
    text = f"An enrolment that replaces a box in use {box}. A new phone {phone}."
    return text if policy.approves_phones or not waiting else f"{text} Phones still awaiting approval: {waiting}."


async def _preview(session: DatabaseSession, customer: int, revoke: bool) -> ConfirmationPreview | None:
    """The number of keys that a rotation with --revoke ends."""
    if not revoke:
        return None
    action = f"revoke all existing issuing and service keys of customer {customer}"
    return ConfirmationPreview(action, {"keys": await session.sql.fetchval(GOES, customer)})


@command(app, "rotate", preview=_preview)
async def rotate(
    session: DatabaseSession,
    customer: Whose,
    revoke: Revoke = False,
) -> CommandResult:
    """Sign with new issuing and service keys; signatures of the older keys stay valid without --revoke."""
    try:
        id = await issuing_keys.rotate(session.sql, await session.vault(), customer, revoke=revoke)
    except KeySetOverlap as still:
        raise overlap(still) from None
    except OfflineRoot:
        raise CommandFailed(OFFLINE) from None
    if id is None:
        raise CommandFailed(NONE.format(customer=customer))
    then = "Boxes reject the older keys after the next visit of a phone." if revoke else "The previous one stays valid."
    return CommandResult({"customer": customer, "issuingKey": id}, f"Issuing key {id} now signs. {then}")
