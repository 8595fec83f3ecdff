"""Customers, whose fleets are isolated from each other."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core.errors import NotFound
from keyrack.db.change_notifier import TOPICS, Topics
from keyrack.db.connection import Connection

TOPICS_CHANGED: Topics = frozenset(TOPICS)

app = typer.Typer()

Which = Annotated[int, which("customer")]

Name = Annotated[str, typer.Argument(metavar="NAME", callback=words)]

INSERT: LiteralString = "insert into customer (name) values ($1) returning customer_id"
RENAME: LiteralString = "update customer set name = $2 where customer_id = $1 returning true"
DELETE: LiteralString = "delete from customer where customer_id = $1 returning true"
LIST: LiteralString = """
select customer_id as id, name, created_at as "createdAt",
  (select count(*) from car where car.customer_id = c.customer_id) as cars,
  (select count(*) from customer_user u where u.customer_id = c.customer_id) as users
from customer c order by customer_id
"""
HELD: LiteralString = """
select (select count(*) from car where customer_id = $1) as cars,
  (select count(*) from customer_user where customer_id = $1) as users,
  (select count(*) from fleet_group where customer_id = $1) as groups,
  (select count(*) from product where customer_id = $1) as products,
  (select count(*) from service where customer_id = $1) as services,
  (select last_id from event_counter where customer_id = $1) as events,
  (select count(*) from operation where customer_id = $1) as operations
"""
NAME: LiteralString = "select name from customer where customer_id = $1"
GOES: LiteralString = (
    HELD.removesuffix("\n")
    + """,
  (select count(*) from assignment where customer_id = $1) as assignments,
  (select count(*) from position where customer_id = $1) as "stretches of positions",
  (select count(*) from webhook where customer_id = $1) as webhooks,
  (select count(*) from device_key where customer_id = $1) + (select count(*) from sdk_key where customer_id = $1)
    as keys
"""
)
# Empties every table that has the customer's id, each as soon as no other row refers to its rows
EMPTY: LiteralString = """
do $$
declare
  waiting text[] := array(
    select c.oid::regclass::text from pg_class c join pg_attribute a on a.attrelid = c.oid
    where a.attname = 'customer_id' and not a.attisdropped and c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace = current_schema()::regnamespace and c.relname <> 'customer');
  held text[];
  name text;
begin
  while waiting <> '{}' loop
    held := '{}';
    foreach name in array waiting loop
      begin
        execute format('delete from %s where customer_id = $1', name)
          using current_setting('keyrack.removed_customer')::integer;
      exception when foreign_key_violation then
        held := held || name;
      end;
    end loop;
    exit when held = waiting;
    waiting := held;
  end loop;
end $$
"""
MEMBERS: LiteralString = "select array_agg(user_id) from customer_user where customer_id = $1"
# Serialises with linking a person to another customer, so that a newly linked person is kept
LOCK: LiteralString = "select from person where user_id = any($1::integer[]) order by user_id for update"
DELETE_NOBODYS: LiteralString = """
delete from person p where user_id = any($1::integer[])
  and not exists (select from customer_user u where u.user_id = p.user_id)
"""


def no_customer(id: int) -> CommandFailed:
    """The error for an id without a customer."""
    return CommandFailed(f"There is no customer {id}.")


@command(app, "add", topics=TOPICS_CHANGED, default=DefaultCell.FEWEST_CUSTOMERS)
async def add(session: DatabaseSession, name: Name) -> CommandResult:
    """Add a customer."""
    id = await session.sql.fetchval(INSERT, name)
    return CommandResult({"id": id}, f"Customer {id} added.")


@command(app, "list", default=DefaultCell.ALL, topics=TOPICS_CHANGED)
async def list_(session: DatabaseSession) -> ListResult:
    """List all customers."""
    rows = await session.sql.fetch(LIST)
    columns = {"ID": "id", "NAME": "name", "CARS": "cars", "USERS": "users", "SINCE": "createdAt"}
    return ListResult([dict(row) for row in rows], columns)


@command(app, "change", topics=TOPICS_CHANGED)
async def change(
    session: DatabaseSession,
    id: Which,
    name: Annotated[str, typer.Option("--name", callback=words, help="The new name.")],
) -> CommandResult:
    """Rename a customer."""
    if not await session.sql.fetchval(RENAME, id, name):
        raise no_customer(id)
    return CommandResult({"id": id}, f"Customer {id} changed.")


Everything = Annotated[
    bool, typer.Option("--everything", help="Also remove everything that belongs to it. This cannot be undone.")
]


async def _preview(session: DatabaseSession, id: int, everything: bool) -> ConfirmationPreview | None:
    """The rows removed with a customer. Raises `CommandFailed` if there is no customer or if it still has data."""
    name = await session.sql.fetchval(NAME, id)
    if name is None:
        raise no_customer(id)
    if not everything:
        await _refuse_unless_empty(session.sql, id)
        return None
    row = await session.sql.fetchrow(GOES, id)
    return ConfirmationPreview(f"remove customer {id} ({name})", {} if row is None else dict(row))


@command(app, "remove", preview=_preview, topics=TOPICS_CHANGED)
async def remove(session: DatabaseSession, id: Which, everything: Everything = False) -> CommandResult:
    """Remove a customer without data, or with --everything a customer and all its data."""
    from keyrack.assignments.customer_lock import lock  # imports all checks of assignments

    try:
        await lock(session.sql, id)
    except NotFound:
        raise no_customer(id) from None
    if everything:
        await _empty(session.sql, id)
    else:
        await _refuse_unless_empty(session.sql, id)
    if not await session.sql.fetchval(DELETE, id):
        raise no_customer(id)
    return CommandResult({"id": id}, f"Customer {id} removed.")


async def _refuse_unless_empty(sql: Connection, id: int) -> None:
    row = await sql.fetchrow(HELD, id)
    counts = [f"{count} {noun}" for noun, count in row.items() if count] if row else []
    if counts:
        raise CommandFailed(f"Customer {id} still has {', '.join(counts)}. To remove them as well, add --everything.")


async def _empty(sql: Connection, id: int) -> None:
    members = await sql.fetchval(MEMBERS, id)
    await sql.execute("select set_config('keyrack.removed_customer', $1::text, true)", str(id))
    await sql.execute(EMPTY)
    await sql.execute(LOCK, members or [])
    await sql.execute(DELETE_NOBODYS, members or [])
