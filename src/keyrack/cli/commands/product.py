"""Products: the key boxes and IQ units of a customer."""

from __future__ import annotations

from typing import Annotated, Any, LiteralString

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands.customer import no_customer
from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import Customer, ExternalId, Meta, OfCustomer, metadata, moment, which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core.error_codes import NO_CUSTOMER, ErrorCode
from keyrack.core.errors import Conflict, NotFound, Refusal, on_constraint
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import APPLIED, Topics
from keyrack.fleet.declarations import PRODUCTS

TOPICS_CHANGED: Topics = frozenset(("products", "cars")) | APPLIED

app = typer.Typer()

Product = Annotated[int, which("product")]

INSERT: LiteralString = """
insert into product (customer_id, kind, serial_number, unique_id, sap_number, external_id, metadata)
values ($1, $2, $3, $4, $5, $6, $7) returning product_id
"""
LIST: LiteralString = """
select p.product_id as id, p.customer_id as "customerId", current_setting('keyrack.brand') || ' ' || p.kind as type,
  p.serial_number as "serialNumber", p.unique_id as "uniqueId", p.sap_number as "sapNumber",
  p.dongle_terminated_at as "dongleTerminationTimeStamp", p.car_id as "carId", s.service_id as "serviceId",
  p.external_id as "externalId", p.metadata
from product p left join service s on s.customer_id = p.customer_id and s.product_id = p.product_id
where $1::integer is null or p.customer_id = $1 order by p.customer_id, p.product_id
"""
UPDATE: LiteralString = (
    "update product set " + PRODUCTS.assignments("$2::jsonb") + " where product_id = $1 returning product_id"
)
OF_CUSTOMER: LiteralString = "select customer_id from product where product_id = $1"
FIND: LiteralString = "select car_id from product where product_id = $1"
GOES: LiteralString = """
select car_id, serial_number,
  (select count(*) from service s where s.customer_id = p.customer_id and s.product_id = p.product_id) as services,
  (select count(*) from device_key k where k.customer_id = p.customer_id and k.product_id = p.product_id
    and revoked_at is null) as keys
from product p where product_id = $1
"""
DELETE: LiteralString = "delete from product where product_id = $1"

# Constraint -> the message of its violation
TAKEN: dict[str, str] = {
    "product_serial_number_key": "The customer already has a product with this serial number.",
    "product_unique_id_key": "The customer already has a product with this unique id.",
    "product_external_id": "The customer already has a product with this external id.",
    "product_metadata_check": "The metadata would have more than 20 keys, or more than 4,096 bytes.",
}


def kind_of(type: str, settings: Settings) -> str | None:
    """The stored name of a type; None for an unknown type."""
    return {settings.box.lower(): "Box", settings.iq.lower(): "IQ"}.get(type.strip().lower())


NUMBERS = {
    "--serial-number": "The number on the device.",
    "--unique-id": "The id that units and apps use.",
    "--sap-number": "The article number.",
}


def _number(option: str) -> Any:
    return typer.Option(option, callback=words, help=NUMBERS[option])


def _refusals() -> dict[str, tuple[type[Refusal], ErrorCode]]:
    return {name: (Conflict, ErrorCode("product-exists", text)) for name, text in TAKEN.items()}


@command(app, "add", topics=TOPICS_CHANGED)
async def add(
    session: DatabaseSession,
    customer: Customer,
    type: Annotated[str, typer.Option("--type", help='"vendor Box" or "vendor IQ", with the configured brand.')],
    serial_number: Annotated[str, _number("--serial-number")],
    unique_id: Annotated[str, _number("--unique-id")],
    sap_number: Annotated[str, _number("--sap-number")],
    external_id: ExternalId = None,
    meta: Meta = None,
) -> CommandResult:
    """Add a key box or an IQ unit."""
    kind = kind_of(type, session.settings)
    if kind is None:
        text = f"must be '{session.settings.box}' or '{session.settings.iq}', not {type!r}"
        raise typer.BadParameter(text, param_hint="'--type'")
    absent = {"product_customer_id_fkey": (NotFound, NO_CUSTOMER.with_text(str(no_customer(customer))))}
    texts = {key: text for key, text in metadata(meta).items() if text is not None} or None
    with on_constraint(_refusals() | absent):
        id = await session.sql.fetchval(
            INSERT, customer, kind, serial_number, unique_id, sap_number, external_id or None, texts
        )
    return CommandResult({"id": id}, f"Product {id} added.")


@command(app, "list", default=DefaultCell.ALL, topics=TOPICS_CHANGED)
async def list_(session: DatabaseSession, customer: OfCustomer = None) -> ListResult:
    """List all products."""
    rows = await session.sql.fetch(LIST, customer)
    columns = {
        "ID": "id", "CUSTOMER": "customerId", "TYPE": "type", "SERIAL NUMBER": "serialNumber",
        "UNIQUE ID": "uniqueId", "SAP NUMBER": "sapNumber", "CAR": "carId", "SERVICE": "serviceId",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


@command(app, "change", topics=TOPICS_CHANGED)
async def change(
    session: DatabaseSession,
    id: Product,
    serial_number: Annotated[str | None, _number("--serial-number")] = None,
    unique_id: Annotated[
        str | None,
        _number("--unique-id"),
    ] = None,
    sap_number: Annotated[str | None, _number("--sap-number")] = None,
    dongle_termination: Annotated[
        str | None, typer.Option("--dongle-termination", metavar="YYYY-MM-DD", help="End of the dongle's contract.")
    ] = None,
    external_id: ExternalId = None,
    meta: Meta = None,
) -> CommandResult:
    """Change a product's numbers, references or end of the dongle's contract."""
    ends = moment(dongle_termination)
    given: dict[str, Any] = {
        "serialNumber": serial_number, "uniqueId": unique_id, "sapNumber": sap_number,
        "dongleTerminationTimeStamp": ends and ends.isoformat(),
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    if external_id is not None:
        changes["externalId"] = external_id or None
    if meta:
        changes["metadata"] = {"texts": metadata(meta)}
    if not changes:
        raise typer.BadParameter("Nothing to change. --help lists the options.")
    with on_constraint(_refusals()):
        updated_id = await session.sql.fetchval(UPDATE, id, changes)
    if updated_id is None:
        raise _no_product(id)
    return CommandResult({"id": id}, f"Product {id} changed.")


async def _preview(session: DatabaseSession, id: int) -> ConfirmationPreview | None:
    """The rows that are removed with a product or lose it. Raises `CommandFailed`."""
    row = await session.sql.fetchrow(GOES, id)
    if row is None:
        raise _no_product(id)
    _refuse_installed(id, row["car_id"])
    goes = {"service that stays without a product": row["services"], "device keys that open nothing then": row["keys"]}
    return (
        ConfirmationPreview(f"remove product {id} ({row['serial_number']})", goes, "") if any(goes.values()) else None
    )


def _refuse_installed(id: int, car: int | None) -> None:
    if car is not None:
        raise CommandFailed(f"Product {id} is installed in car {car}. Remove it first with DELETE /installations.")


@command(app, "remove", preview=_preview, topics=TOPICS_CHANGED)
async def remove(session: DatabaseSession, id: Product) -> CommandResult:
    """Remove a product that is not installed in a car; its service stays, without a product."""
    customer = await session.sql.fetchval(OF_CUSTOMER, id)
    if customer is not None:
        await session.settle(customer)
    row = await session.sql.fetchrow(FIND, id)
    if row is None:
        raise _no_product(id)
    _refuse_installed(id, row["car_id"])
    await session.sql.execute(DELETE, id)
    return CommandResult({"id": id}, f"Product {id} removed.")


def _no_product(id: int) -> CommandFailed:
    return CommandFailed(f"There is no product {id}.")
