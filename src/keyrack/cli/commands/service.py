"""Services: the subscriptions of products, with their contracts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, LiteralString

import typer

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands import pairing
from keyrack.cli.commands.customer import no_customer
from keyrack.cli.commands.pairing import paired, product_of
from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import Customer, OfCustomer, moment, which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound, on_constraint
from keyrack.db.change_notifier import APPLIED, Topics
from keyrack.db.named_parameters import compile_statement

TOPICS_CHANGED: Topics = frozenset(("services", "products")) | APPLIED

app = typer.Typer()

Service = Annotated[int, which("service")]

INSERT: LiteralString = "insert into service (customer_id, name) values ($1, $2) returning service_id"
OF_CUSTOMER: LiteralString = "select customer_id from service where service_id = $1"
UPDATE: LiteralString = """
update service set name = coalesce($2, name), is_terminated = coalesce($3, is_terminated),
  terminated_at = case when $3 then $4 when not $3 then null else terminated_at end,
  termination_cause = case when $3 then $5 when not $3 then null else termination_cause end
where service_id = $1 returning customer_id
"""
PUT_CONTRACT = compile_statement("""
insert into contract (customer_id, service_id, order_number, document_number, order_position, starts_at, ends_at,
                      term_of_contract, term_of_notice, unit_of_notice)
values (:customer, :service, :order_number, :document_number, :order_position, :start, :end,
        :term_of_contract, :term_of_notice, :unit_of_notice)
on conflict (customer_id, service_id) do update set order_number = excluded.order_number,
  document_number = excluded.document_number, order_position = excluded.order_position,
  starts_at = excluded.starts_at, ends_at = excluded.ends_at, term_of_contract = excluded.term_of_contract,
  term_of_notice = excluded.term_of_notice, unit_of_notice = excluded.unit_of_notice
""")
LIST: LiteralString = """
select s.service_id as id, s.customer_id as "customerId", s.name, s.product_id as "productId",
  s.is_terminated as "isTerminated", s.terminated_at as "terminationDate", s.termination_cause as "terminationCause",
  c.order_number as "orderNumber", c.document_number as "documentNumber", c.order_position as "orderPosition",
  c.starts_at as "start", c.ends_at as "end", c.term_of_contract as "termOfContract",
  c.term_of_notice as "termOfNotice", c.unit_of_notice as "unitOfNotice"
from service s left join contract c using (customer_id, service_id)
where $1::integer is null or customer_id = $1 order by customer_id, service_id
"""
GOES: LiteralString = """
select s.name, p.product_id, p.car_id,
  (select count(*) from contract c where c.customer_id = s.customer_id and c.service_id = s.service_id) as contracts
from service s left join product p on p.customer_id = s.customer_id and p.product_id = s.product_id
where s.service_id = $1
"""
FIND: LiteralString = """
select p.product_id, p.car_id from service s
left join product p on p.customer_id = s.customer_id and p.product_id = s.product_id
where s.service_id = $1
"""
DELETE: LiteralString = "delete from service where service_id = $1"


def _text(name: str, help: str) -> Any:
    return typer.Option(name, callback=words, help=help)


def _number(name: str, help: str) -> Any:
    return typer.Option(name, min=0, max=INT32_MAX, help=help)


OrderNumber = Annotated[str | None, _text("--order-number", "Order number of the contract.")]
DocumentNumber = Annotated[str | None, _text("--document-number", "Document number of the contract.")]
OrderPosition = Annotated[int | None, _number("--order-position", "Position in the order.")]
Start = Annotated[str | None, typer.Option("--start", metavar="YYYY-MM-DD", help="First day of the contract.")]
End = Annotated[str | None, typer.Option("--end", metavar="YYYY-MM-DD", help="End date of the contract.")]
TermOfContract = Annotated[int | None, _number("--term-of-contract", "Term of the contract in months.")]
TermOfNotice = Annotated[int | None, _number("--term-of-notice", "Period of notice, in units.")]
UnitOfNotice = Annotated[
    str | None, typer.Option("--unit-of-notice", callback=words, help="Unit of the period of notice, such as Month.")
]


def contract_of(
    order_number: str | None,
    document_number: str | None,
    order_position: int | None,
    start: datetime | None,
    end: datetime | None,
    term_of_contract: object,
    term_of_notice: object,
    unit_of_notice: object,
) -> dict[str, object] | None:
    """The values of a contract; None if no value is given. Raises `ValueError` for an incomplete contract."""
    values: dict[str, object] = {
        "order_number": order_number, "document_number": document_number, "order_position": order_position,
        "start": start, "end": end, "term_of_contract": term_of_contract, "term_of_notice": term_of_notice,
        "unit_of_notice": unit_of_notice,
    }  # fmt: skip
    if all(value is None for value in values.values()):
        return None
    if order_number is None or document_number is None or start is None or end is None:
        raise ValueError("A contract needs order number, document number, start and end.")
    if end < start:
        raise ValueError("The contract ends before it starts.")
    return values


@command(app, "add", topics=TOPICS_CHANGED)
async def add(
    session: DatabaseSession,
    customer: Customer,
    name: Annotated[str, _text("--name", "Name of the service.")],
    order_number: OrderNumber = None,
    document_number: DocumentNumber = None,
    order_position: OrderPosition = None,
    start: Start = None,
    end: End = None,
    term_of_contract: TermOfContract = None,
    term_of_notice: TermOfNotice = None,
    unit_of_notice: UnitOfNotice = None,
    pair_product: Annotated[
        str | None,
        typer.Option(
            "--pair-product", metavar="SERIAL", callback=words, help="Serial number of a product to pair it with."
        ),
    ] = None,
) -> CommandResult:
    """Add a service. A contract needs order number, document number, start and end."""
    contract = _contract(
        order_number, document_number, order_position, start, end, term_of_contract, term_of_notice, unit_of_notice
    )
    product = None
    if pair_product is not None:
        product = await product_of(session.sql, customer, pair_product)
        await session.settle(customer)
    with on_constraint({"service_customer_id_fkey": (NotFound, NO_CUSTOMER.with_text(str(no_customer(customer))))}):
        id = await session.sql.fetchval(INSERT, customer, name)
    if contract is not None:
        arguments = PUT_CONTRACT.arguments(customer=customer, service=id, **contract)
        await session.sql.execute(PUT_CONTRACT.sql, *arguments)
    text = f"Service {id} added{'' if contract else ', without a contract'}"
    if product is None:
        return CommandResult({"id": id}, f"{text}.")
    await paired(session, id, product)
    return CommandResult({"id": id, "productId": product}, f"{text}; it is paired with product {product}.")


app.registered_commands.extend(pairing.app.registered_commands)


@command(app, "list", default=DefaultCell.ALL, topics=TOPICS_CHANGED)
async def list_(session: DatabaseSession, customer: OfCustomer = None) -> ListResult:
    """List all services."""
    rows = await session.sql.fetch(LIST, customer)
    columns = {
        "ID": "id", "CUSTOMER": "customerId", "NAME": "name", "PRODUCT": "productId", "TERMINATED": "isTerminated",
        "ORDER": "orderNumber", "START": "start", "END": "end",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


@command(app, "change", topics=TOPICS_CHANGED)
async def change(
    session: DatabaseSession,
    id: Service,
    name: Annotated[str | None, _text("--name", "New name.")] = None,
    terminate: Annotated[
        bool | None, typer.Option("--terminate/--reinstate", help="End the service, or revert its end.")
    ] = None,
    cause: Annotated[str | None, typer.Option("--cause", callback=words, help="With --terminate: the reason.")] = None,
    date: Annotated[
        str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="With --terminate: the end date. Default: now.")
    ] = None,
    order_number: OrderNumber = None,
    document_number: DocumentNumber = None,
    order_position: OrderPosition = None,
    start: Start = None,
    end: End = None,
    term_of_contract: TermOfContract = None,
    term_of_notice: TermOfNotice = None,
    unit_of_notice: UnitOfNotice = None,
) -> CommandResult:
    """Rename or end a service, or replace its contract. An ended service allows no new assignments."""
    contract = _contract(
        order_number, document_number, order_position, start, end, term_of_contract, term_of_notice, unit_of_notice
    )
    ended = moment(date)
    if not terminate and (cause or ended):
        raise typer.BadParameter("--cause and --date need --terminate.")
    if ended is not None and ended > datetime.now(UTC):
        raise typer.BadParameter("must not be in the future, because a service ends at once", param_hint="'--date'")
    if name is None and terminate is None and contract is None:
        raise typer.BadParameter("Nothing to change. --help lists the options.")
    if terminate is not None:
        await _settle(session, id)
    customer = await session.sql.fetchval(UPDATE, id, name, terminate, ended or datetime.now(UTC), cause)
    if customer is None:
        raise _no_service(id)
    if contract is not None:
        arguments = PUT_CONTRACT.arguments(customer=customer, service=id, **contract)
        await session.sql.execute(PUT_CONTRACT.sql, *arguments)
    return CommandResult({"id": id}, f"Service {id} changed.")


async def _preview(session: DatabaseSession, id: int) -> ConfirmationPreview | None:
    """The contract and the pairing that are removed with a service. Raises `CommandFailed`."""
    row = await session.sql.fetchrow(GOES, id)
    if row is None:
        raise _no_service(id)
    _refuse_installed(id, row["product_id"], row["car_id"])
    goes = {"contract": row["contracts"], "pairing with a product": int(row["product_id"] is not None)}
    return ConfirmationPreview(f"remove service {id} ({row['name']})", goes) if any(goes.values()) else None


def _refuse_installed(id: int, product: int, car: int | None) -> None:
    if car is not None:
        raise CommandFailed(
            f"Service {id} belongs to product {product}, which is installed in car {car}. "
            "Remove the product first with DELETE /installations."
        )


@command(app, "remove", preview=_preview, topics=TOPICS_CHANGED)
async def remove(session: DatabaseSession, id: Service) -> CommandResult:
    """Remove a service and its contract, unless its product is installed in a car."""
    await _settle(session, id)
    row = await session.sql.fetchrow(FIND, id)
    if row is None:
        raise _no_service(id)
    _refuse_installed(id, row["product_id"], row["car_id"])
    await session.sql.execute(DELETE, id)
    return CommandResult({"id": id}, f"Service {id} removed.")


def _contract(
    order_number: str | None,
    document_number: str | None,
    order_position: int | None,
    start: str | None,
    end: str | None,
    *terms: object,
) -> dict[str, object] | None:
    try:
        return contract_of(order_number, document_number, order_position, moment(start), moment(end), *terms)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


async def _settle(session: DatabaseSession, id: int) -> None:
    """Lock the service's customer, because assignments depend on the service. Raises `CommandFailed`."""
    customer = await session.sql.fetchval(OF_CUSTOMER, id)
    if customer is None:
        raise _no_service(id)
    await session.settle(customer)


def _no_service(id: int) -> CommandFailed:
    return CommandFailed(f"There is no service {id}.")
