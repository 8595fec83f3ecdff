"""The conversion of free text in older rows to NFC.

A text stays unconverted if another row already has the converted text and both must differ. `keyrack doctor` lists such
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

import structlog

from keyrack.changelog.declared_tables import TABLES
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Row, Statements
from keyrack.db.row_batches import run_in_batches

log = structlog.get_logger("keyrack.texts")

# A text of only ASCII is in NFC, and its length shows that at a lower cost
IN_ANOTHER_FORM: LiteralString = "(octet_length({column}) <> length({column}) and {column} is not nfc normalized)"
CONVERT: LiteralString = """
with converted as (
  update {table} set {assignments} where ctid = any(array(
    select ctid from {table} where {condition} limit $1 for no key update skip locked))
  returning 1)
select count(*) from converted
"""
# Converts only the first one of several rows with the same normal form
CONVERT_UNIQUE: LiteralString = """
with converted as (
  update {table} r set {column} = normalize({column}, NFC) where ctid = any(array(
    select ctid from {table} o where {condition} and not exists (
      select from {table} other where {same} and other.ctid <> o.ctid
        and (other.{column} = normalize(o.{column}, NFC)
          or other.ctid < o.ctid and normalize(other.{column}, NFC) = normalize(o.{column}, NFC)))
    limit $1 for no key update skip locked))
  returning 1)
select count(*) from converted
"""
LEFT: LiteralString = "select '{table}' as table, {column} as text from {table} where {condition} order by 2 limit $1"


@dataclass(frozen=True, slots=True)
class UniqueText:
    """A column whose texts are unique among rows of the same scope.

    `same` is the SQL condition that the rows `o` and `other` have the same scope.
    """

    table: LiteralString
    column: LiteralString
    same: LiteralString


UNIQUE_TEXTS = (
    UniqueText("fleet_group", "name", "other.customer_id = o.customer_id"),
    UniqueText("product", "unique_id", "other.customer_id = o.customer_id"),
    UniqueText("product", "serial_number", "other.customer_id = o.customer_id"),
    UniqueText("key_form", "name", "true"),
    UniqueText(
        "brand_key", "brand", "other.key_form_id = o.key_form_id and other.box_name is not distinct from o.box_name"
    ),
    UniqueText("brand_key", "box_name", "other.key_form_id = o.key_form_id and other.brand = o.brand"),
)


def _declared() -> Iterator[tuple[LiteralString, tuple[LiteralString, ...]]]:
    """Table -> text columns of its declared members, without unique ones."""
    unique = {(text.table, text.column) for text in UNIQUE_TEXTS}
    for table in TABLES:
        columns: tuple[LiteralString, ...] = tuple(
            [column for column in table.text_columns if (table.table, column) not in unique]
        )
        if columns:
            yield table.table, columns


TEXTS: dict[LiteralString, tuple[LiteralString, ...]] = {
    **dict(_declared()),
    "brand_key": ("box_sap_number",),
    "app_device": ("name",),
    "api_key": ("name",),
    "device_key": ("name",),
    "passkey": ("name",),
    "provider": ("label",),
    "sdk_key": ("name",),
}
LISTED = 20  # maximum number of reported texts for each column


async def convert(db: Database, settings: Settings) -> None:
    """Convert the texts of older rows, in batches. A housekeeping job."""
    for table, columns in TEXTS.items():
        condition: LiteralString = " or ".join([IN_ANOTHER_FORM.replace("{column}", column) for column in columns])
        assignments: LiteralString = ", ".join([column + " = normalize(" + column + ", NFC)" for column in columns])
        statement = CONVERT.replace("{table}", table).replace("{condition}", condition)
        await run_in_batches(db, settings.housekeeping_rows, statement.replace("{assignments}", assignments))
    for text in UNIQUE_TEXTS:
        statement = _of(text, CONVERT_UNIQUE, "o.").replace("{same}", text.same)
        await run_in_batches(db, settings.housekeeping_rows, statement)
    if rows := await collisions(db):
        tables = sorted({row["table"] for row in rows})
        log.error("unicode normal form conflict", alert=True, tables=tables, count=len(rows))


async def collisions(statements: Statements) -> list[Row]:
    """Texts that stay unconverted because another row has the converted text: table, text."""
    rows: list[Row] = []
    for text in UNIQUE_TEXTS:
        rows += await statements.fetch(_of(text, LEFT, ""), LISTED)
    return rows


def _of(text: UniqueText, statement: LiteralString, alias: LiteralString) -> LiteralString:
    condition = IN_ANOTHER_FORM.replace("{column}", alias + text.column)
    return statement.replace("{table}", text.table).replace("{condition}", condition).replace("{column}", text.column)
