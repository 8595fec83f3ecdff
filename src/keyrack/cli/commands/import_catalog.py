"""Imports of products, services and brands from a file: every line is checked, and all rows or none are written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, LiteralString

import typer

from keyrack.cli.commands.brand import ADDRESS, own_drawing
from keyrack.cli.commands.product import kind_of
from keyrack.cli.commands.service import contract_of
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.input_files import InputRow, read_rows
from keyrack.cli.options import whose
from keyrack.cli.output import CommandFailed, CommandResult
from keyrack.cli.progress import progress
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint
from keyrack.db.change_notifier import TOPICS, Topics
from keyrack.db.connection import Connection

TOPICS_CHANGED: Topics = frozenset(TOPICS)

app = typer.Typer()

SHOWN = 200  # problems that an error report lists
PIECE = 1_000  # rows between two reports of progress
File = Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file, or a JSON file with an array of objects.")]
ForCustomer = Annotated[int | None, whose("The customer of rows without customerId (id or name).")]
Format = Annotated[
    Literal["csv", "json"] | None, typer.Option("--format", help="Format of the file. Default: by its name.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check all rows, and change nothing.")]

NO_CUSTOMER: LiteralString = """
select line, 'there is no customer ' || customer_id as problem from incoming i
where not exists (select from customer c where c.customer_id = i.customer_id)
"""
PRODUCTS: LiteralString = """
create temp table incoming (
  line integer, customer_id integer, kind text, serial_number text, unique_id text, sap_number text) on commit drop
"""
PRODUCT_PROBLEMS: LiteralString = (
    NO_CUSTOMER
    + """
union all
select line, 'the customer already has a product with the serial number ' || serial_number
from incoming join product using (customer_id, serial_number)
union all
select line, 'the customer already has a product with the unique id ' || unique_id
from incoming join product using (customer_id, unique_id)
order by line
"""
)
INSERT_PRODUCTS: LiteralString = """
insert into product (customer_id, kind, serial_number, unique_id, sap_number)
select customer_id, kind, serial_number, unique_id, sap_number from incoming order by line
"""
SERVICES: LiteralString = """
create temp table incoming (
  line int, customer_id int, name text, product_serial_number text, order_number text, document_number text,
  order_position int, starts_at timestamptz, ends_at timestamptz, term_of_contract int, term_of_notice int,
  unit_of_notice text,
  service_id int default nextval(pg_get_serial_sequence('service', 'service_id'))) on commit drop
"""
SERVICE_PROBLEMS: LiteralString = (
    NO_CUSTOMER
    + """
union all
select line, case when p.product_id is null then 'the customer has no product with the serial number '
                  else 'there is already a service for the product with the serial number ' end || product_serial_number
from incoming i
left join product p on p.customer_id = i.customer_id and p.serial_number = i.product_serial_number
left join service s on s.customer_id = p.customer_id and s.product_id = p.product_id
where product_serial_number is not null and (p.product_id is null or s.service_id is not null)
order by line
"""
)
PAIRED: LiteralString = "select distinct customer_id from incoming where product_serial_number is not null"
INSERT_SERVICES: LiteralString = """
with s as (
  insert into service (customer_id, service_id, name, product_id)
  select i.customer_id, i.service_id, i.name, p.product_id
  from incoming i left join product p on p.customer_id = i.customer_id and p.serial_number = i.product_serial_number
  order by line
)
insert into contract (customer_id, service_id, order_number, document_number, order_position, starts_at, ends_at,
                      term_of_contract, term_of_notice, unit_of_notice)
select customer_id, service_id, order_number, document_number, order_position, starts_at, ends_at, term_of_contract,
       term_of_notice, unit_of_notice
from incoming where order_number is not null order by line
"""
BRANDS: LiteralString = """
create temp table incoming (
  line integer, brand text, key_form text, box_name text, box_sap_number text, image_url text, drawing text)
on commit drop
"""
BRAND_PROBLEMS: LiteralString = """
select line, i.brand || ' already has the key form ' || key_form || ' with this box' as problem from incoming i
join key_form f on f.name = i.key_form
join brand_key b on b.key_form_id = f.key_form_id and lower(b.brand) = lower(i.brand)
  and b.box_name is not distinct from i.box_name
order by line
"""
INSERT_BRANDS: LiteralString = """
with form as (
  insert into key_form (name, image_url, drawing)
  select key_form, max(image_url), case when max(image_url) is null then max(drawing) end
  from incoming group by key_form order by min(line)
  on conflict (name) do update set image_url = coalesce(excluded.image_url, key_form.image_url)
  returning key_form_id, name
), spelling as (
  select lower(brand) as low, min(brand) as brand from brand_key group by 1
), first as (
  select distinct on (lower(brand)) lower(brand) as low, brand from incoming order by lower(brand), line
)
insert into brand_key (brand, box_name, box_sap_number, key_form_id)
select coalesce(s.brand, first.brand), box_name, box_sap_number, key_form_id
from incoming i join form on form.name = i.key_form join first on first.low = lower(i.brand)
left join spelling s on s.low = lower(i.brand) order by line
"""
MEANWHILE = ErrorCode("written-meanwhile", "Another command has written the same meanwhile; nothing was imported.")
CONSTRAINTS = (
    "product_serial_number_key",
    "product_unique_id_key",
    "product_customer_id_fkey",
    "service_product_key",
    "service_customer_id_fkey",
    "brand_key_brand_key_form_id_box_name_key",
)

Values = tuple[object, ...]


class _DryRunRollback(Exception):
    """Rolls a dry run back."""


class DuplicateCheck:
    """Finds duplicate values in a file, with the line of the first one."""

    def __init__(self) -> None:
        self._lines: dict[tuple[object, ...], int] = {}

    def check(self, row: InputRow, noun: str, *key: object) -> None:
        first = self._lines.setdefault(key, row.line)
        if first != row.line:
            row.problems.append(f"{noun} is already in line {first}")


@command(app, "products", topics=TOPICS_CHANGED)
async def products(
    session: DatabaseSession, file: File, customer: ForCustomer = None, format: Format = None, dry_run: DryRun = False
) -> CommandResult:
    """Import products.

    Columns: type, serialNumber, uniqueId, sapNumber and, without --customer, customerId.
    """
    names = ("customerId", "type", "serialNumber", "uniqueId", "sapNumber")
    seen = DuplicateCheck()

    def values(row: InputRow) -> Values:
        owner = _owner(row, customer)
        type = row.text("type")
        kind = type and kind_of(type, session.settings)
        if type and not kind:
            row.problems.append(f"type must be {session.settings.box!r} or {session.settings.iq!r}, not {type!r}")
        serial_number, unique_id = row.text("serialNumber"), row.text("uniqueId")
        if serial_number:
            seen.check(row, f"serialNumber {serial_number}", "serial", owner, serial_number)
        if unique_id:
            seen.check(row, f"uniqueId {unique_id}", "unique", owner, unique_id)
        return owner, kind, serial_number, unique_id, row.text("sapNumber")

    await session.sql.execute(PRODUCTS)
    columns = ("line", "customer_id", "kind", "serial_number", "unique_id", "sap_number")
    count = await _fill(session.sql, read_rows(file, format, names), values, columns, PRODUCT_PROBLEMS)
    return await _finish(session.sql, lambda: session.sql.execute(INSERT_PRODUCTS), count, "products", dry_run)


@command(app, "services", topics=TOPICS_CHANGED)
async def services(
    session: DatabaseSession, file: File, customer: ForCustomer = None, format: Format = None, dry_run: DryRun = False
) -> CommandResult:
    """Import services.

    Columns: name and, without --customer, customerId. Optional: productSerialNumber, and for a contract orderNumber,
    documentNumber, orderPosition, start, end, termOfContract, termOfNotice and unitOfNotice.
    """
    terms = ("termOfContract", "termOfNotice")
    names = (
        "customerId", "name", "productSerialNumber", "orderNumber", "documentNumber", "orderPosition", "start", "end",
        *terms, "unitOfNotice",
    )  # fmt: skip
    seen = DuplicateCheck()

    def values(row: InputRow) -> Values:
        owner, name = _owner(row, customer), row.text("name")
        product = row.text("productSerialNumber", needed=False)
        if product:
            seen.check(row, f"productSerialNumber {product}", owner, product)
        contract: tuple[Any, ...] = (
            row.text("orderNumber", needed=False),
            row.text("documentNumber", needed=False),
            row.number("orderPosition"),
            row.moment("start"),
            row.moment("end"),
            *(row.number(name) for name in terms),
            row.text("unitOfNotice", needed=False),
        )
        try:
            contract_of(*contract)
        except ValueError as error:
            row.problems.append(str(error).rstrip("."))
        return owner, name, product, *contract

    await session.sql.execute(SERVICES)
    columns = (
        "line", "customer_id", "name", "product_serial_number", "order_number", "document_number", "order_position",
        "starts_at", "ends_at", "term_of_contract", "term_of_notice", "unit_of_notice",
    )  # fmt: skip
    count = await _fill(session.sql, read_rows(file, format, names), values, columns, SERVICE_PROBLEMS)
    if not dry_run:
        await session.settle(*[row["customer_id"] for row in await session.sql.fetch(PAIRED)])
    return await _finish(session.sql, lambda: session.sql.execute(INSERT_SERVICES), count, "services", dry_run)


@command(app, "brands", topics=TOPICS_CHANGED)
async def brands(session: DatabaseSession, file: File, format: Format = None, dry_run: DryRun = False) -> CommandResult:
    """Import the catalogue of brands.

    Columns: brand and keyForm. Optional: boxName, boxSapNumber and imageUrl.
    """
    names = ("brand", "keyForm", "boxName", "boxSapNumber", "imageUrl")
    seen = DuplicateCheck()
    drawings: dict[str, str] = {}

    def values(row: InputRow) -> Values:
        brand, form, box = row.text("brand"), row.text("keyForm"), row.text("boxName", needed=False)
        if brand and form:
            seen.check(row, f"the key form {form} of {brand}", brand.lower(), form, box)
        url = row.text("imageUrl", needed=False)
        if url and not re.fullmatch(ADDRESS, url):
            row.problems.append("imageUrl must begin with http:// or https://")
        drawing = form and drawings.setdefault(form, own_drawing(form))
        return brand, form, box, row.text("boxSapNumber", needed=False), url, drawing

    await session.sql.execute(BRANDS)
    columns = ("line", "brand", "key_form", "box_name", "box_sap_number", "image_url", "drawing")
    count = await _fill(session.sql, read_rows(file, format, names), values, columns, BRAND_PROBLEMS)
    return await _finish(session.sql, lambda: session.sql.execute(INSERT_BRANDS), count, "keys", dry_run)


def _owner(row: InputRow, customer: int | None) -> int | None:
    owner = row.number("customerId", customer)
    if owner is None and not row.problems:
        row.problems.append("customerId is missing; add the column or --customer")
    return owner


async def _fill(
    sql: Connection, rows: Any, values: Callable[[InputRow], Values], columns: tuple[str, ...], problems: LiteralString
) -> int:
    """Copy the rows into the temporary table, and check them there. Raises `CommandFailed` with all problems."""
    wrong: list[tuple[int, str]] = []
    good: list[Values] = []
    number = 0
    with progress() as tell:
        for number, row in enumerate(rows, 1):
            copied = values(row)
            if row.problems:
                wrong.append((row.line, "; ".join(row.problems)))
            else:
                good.append((row.line, *copied))
            if number % PIECE == 0:
                tell(f"{number:,} rows read")
                await asyncio.sleep(0)  # lets Ctrl-C through
        tell(f"comparing {number:,} rows with the database")
        await sql.copy("incoming", columns, good)
        await sql.execute("analyze incoming")
        wrong += [(row["line"], row["problem"]) for row in await sql.fetch(problems)]
    if wrong:
        raise _report(sorted(wrong), number)
    return number


def _report(wrong: list[tuple[int, str]], rows: int) -> CommandFailed:
    lines = [f"line {line}: {problem}" for line, problem in wrong[:SHOWN]]
    if len(wrong) > SHOWN:
        lines.append(f"... and {len(wrong) - SHOWN:,} more")
    bad = len({line for line, _ in wrong})
    problems = [{"line": line, "problem": problem} for line, problem in wrong]
    return CommandFailed(
        f"Nothing was imported: {bad:,} of {rows:,} rows have errors.", lines, {"imported": 0, "problems": problems}
    )


async def _finish(
    sql: Connection, insert: Callable[[], Awaitable[object]], count: int, noun: str, dry_run: bool
) -> CommandResult:
    with progress() as tell, on_constraint(dict.fromkeys(CONSTRAINTS, (Conflict, MEANWHILE))):
        try:
            async with sql.transaction():
                tell(f"writing {count:,} {noun}")
                await insert()
                if dry_run:
                    raise _DryRunRollback
        except _DryRunRollback:
            return CommandResult({"imported": 0, "valid": count, "dryRun": True}, f"{count:,} {noun} can be imported.")
    return CommandResult({"imported": count}, f"{count:,} {noun} imported.")
