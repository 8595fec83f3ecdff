"""Names instead of ids in options: how a row can be named, and which row that is.

A name selects the only row that has it. An unknown or ambiguous name is an error that lists candidates.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import typer

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.auth.usernames import MANAGERS
from keyrack.cli.output import CommandFailed
from keyrack.core.addresses import address_form
from keyrack.core.text import nfc, trimmed
from keyrack.db.connection import Row, Statements

MOST = 5_000  # names that are searched for a similar one
CANDIDATES = 5  # in an error message


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of row that options can name, and the SQL that finds it."""

    word: str
    called: str
    rows: LiteralString
    match: LiteralString = "lower(name) = lower($1)"
    is_address: bool = False  # names are addresses, and `$1` is in their normal form


@dataclass(frozen=True, slots=True)
class Reference:
    """A row in an option, by its id or its name."""

    noun: str
    text: str
    id: int | None = None  # None: `text` is a name


class ManagerName(str):
    """The user name of a manager, in an option that stays a text. It leads to the manager's cell."""

    __slots__ = ()


NOUNS = {
    "customer": Noun("customer", "called", "select customer_id as id, name, null::integer as of from customer"),
    "manager": Noun(
        "manager",
        "called",
        "select manager_id as id, username as name, null::integer as of from manager",
        "id = " + MANAGERS.key_by_form("$1"),
        is_address=True,
    ),
    "provider": Noun("provider", "called", "select provider_id as id, name, null::integer as of from provider"),
    "client": Noun("client", "called", "select client_id as id, name, null::integer as of from client"),
    "api_key": Noun("API key", "called", "select api_key_id as id, name, null::integer as of from api_key"),
    "sdk_key": Noun("SDK key", "called", "select sdk_key_id as id, name, customer_id as of from sdk_key"),
    "device_key": Noun("device key", "called", "select device_key_id as id, name, customer_id as of from device_key"),
    "product": Noun(
        "product",
        "with the serial number",
        "select product_id as id, serial_number as name, customer_id as of from product",
    ),
    "service": Noun("service", "called", "select service_id as id, name, customer_id as of from service"),
    "webhook": Noun(
        "webhook",
        "with the address",
        "select webhook_id as id, coalesce(nullif(url, ''), name, '') as name, customer_id as of from webhook",
    ),
}
MATCHING: LiteralString = "select * from ({rows}) r where {match} order by id limit $2"
EXISTS: LiteralString = "select exists (select from ({rows}) r where id = $1)"
KNOWN: LiteralString = "select id, name from ({rows}) r order by id limit $1"


def reference(noun: str) -> Callable[[str], Any]:
    """A parser for an option with an id or a name of `noun`. It returns a `Reference` for `resolved`."""

    def read(value: str) -> Reference:
        text = trimmed(value)
        if not text:
            raise typer.BadParameter("must not be empty")
        if not (text.isascii() and text.lstrip("-").isdigit()):
            return Reference(noun, text if NOUNS[noun].is_address else nfc(text))
        if 1 <= int(text) <= INT32_MAX:
            return Reference(noun, text, int(text))
        raise typer.BadParameter(f"{text} is not an id from 1 to {INT32_MAX}")

    return read


async def resolved(sql: Statements, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with ids instead of names. Raises `CommandFailed`."""
    return {name: await _resolved(sql, value) for name, value in options.items()}


async def _resolved(sql: Statements, value: Any) -> Any:
    if isinstance(value, list):
        return [await _resolved(sql, item) for item in cast("list[Any]", value)]
    return await _id(sql, value) if isinstance(value, Reference) else value


async def _id(sql: Statements, wanted: Reference) -> int:
    if wanted.id is not None:
        return wanted.id
    noun = NOUNS[wanted.noun]
    rows = await _matches(sql, wanted)
    exact = [row for row in rows if row["name"] == wanted.text]
    matches = exact if len(exact) == 1 else rows
    if len(matches) == 1:
        return matches[0]["id"]
    if matches:
        which = ", ".join(_which(row) for row in matches[:CANDIDATES]) + ", ..." * (len(matches) > CANDIDATES)
        raise CommandFailed(
            f"There are {len(matches)} {noun.word}s {noun.called} {wanted.text!r}. Use the id: {which}."
        )
    raise CommandFailed(f"There is no {noun.word} {noun.called} {wanted.text!r}.{await _meant(sql, noun, wanted.text)}")


async def _matches(sql: Statements, wanted: Reference) -> list[Row]:
    noun = NOUNS[wanted.noun]
    matching: LiteralString = MATCHING.replace("{rows}", noun.rows).replace("{match}", noun.match)
    return await sql.fetch(matching, address_form(wanted.text) if noun.is_address else wanted.text, MOST)


async def is_there(sql: Statements, wanted: Reference) -> bool:
    """Whether the database has a row with this id or name."""
    if wanted.id is None:
        return bool(await _matches(sql, wanted))
    exists: LiteralString = EXISTS.replace("{rows}", NOUNS[wanted.noun].rows)
    return bool(await sql.fetchval(exists, wanted.id))


def _which(row: Any) -> str:
    return str(row["id"]) if row["of"] is None else f"{row['id']} (of customer {row['of']})"


async def _meant(sql: Statements, noun: Noun, text: str) -> str:
    """A hint: similar names, or the names of the first rows."""
    statement: LiteralString = KNOWN.replace("{rows}", noun.rows)
    rows = await sql.fetch(statement, MOST)
    low = {row["name"].lower(): row for row in rows}
    near = [low[name] for name in difflib.get_close_matches(text.lower(), low, 3, 0.6)]
    suggestions = ", ".join(f"{row['name']!r} ({row['id']})" for row in near or rows[:CANDIDATES])
    if not suggestions:
        return f" No {noun.word} exists."
    return f" Did you mean {suggestions}?" if near else f" Existing: {suggestions}{', ...' * (len(rows) > CANDIDATES)}."
