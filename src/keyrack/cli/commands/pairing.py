"""Pairing of services and products. A box without a paired service opens nothing."""

from __future__ import annotations

from typing import Annotated, LiteralString

import asyncpg
import typer

from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import which
from keyrack.cli.output import CommandFailed, CommandResult
from keyrack.db.change_notifier import APPLIED, Topics
from keyrack.db.connection import Connection

TOPICS_CHANGED: Topics = frozenset(("services", "products")) | APPLIED

app = typer.Typer()

Service = Annotated[int, which("service")]
Product = Annotated[int, which("product")]

SERVICE: LiteralString = "select customer_id, product_id from service where service_id = $1"
PRODUCT: LiteralString = """
select p.customer_id, p.serial_number, p.car_id, s.service_id from product p
left join service s on s.customer_id = p.customer_id and s.product_id = p.product_id where p.product_id = $1
"""
BY_SERIAL_NUMBER: LiteralString = "select product_id from product where customer_id = $1 and serial_number = $2"
SET: LiteralString = "update service set product_id = $2 where service_id = $1"


async def product_of(sql: Connection, customer: int, serial_number: str) -> int:
    """The customer's product with this serial number. Raises `CommandFailed`."""
    id = await sql.fetchval(BY_SERIAL_NUMBER, customer, serial_number)
    if id is None:
        raise CommandFailed(f"Customer {customer} has no product with the serial number {serial_number}.")
    return id


async def paired(session: DatabaseSession, service: int, product: int) -> None:
    """Pair a service with a product of the same customer, which the caller has locked. Raises `CommandFailed`."""
    of_service, of_product = await session.sql.fetchrow(SERVICE, service), await session.sql.fetchrow(PRODUCT, product)
    if of_service is None or of_product is None:
        raise CommandFailed(
            f"There is no service {service}." if of_service is None else f"There is no product {product}."
        )
    if of_service["customer_id"] != of_product["customer_id"]:
        raise CommandFailed(f"Service {service} and product {product} belong to different customers.")
    if of_service["product_id"] is not None:
        raise CommandFailed(
            f"Service {service} is already paired with product {of_service['product_id']}. Unpair it first: "
            f"keyrack service unpair {service}"
        )
    if of_product["service_id"] is not None:
        raise CommandFailed(f"Product {product} is already paired with service {of_product['service_id']}.")
    try:
        await session.sql.execute(SET, service, product)
    except asyncpg.UniqueViolationError:
        raise CommandFailed(f"Another command has just paired product {product}.") from None


async def _settle(session: DatabaseSession, service: int) -> None:
    customer = await session.sql.fetchval(SERVICE, service)
    if customer is None:
        raise CommandFailed(f"There is no service {service}.")
    await session.settle(customer)


@command(app, "pair", topics=TOPICS_CHANGED)
async def pair(session: DatabaseSession, service: Service, product: Product) -> CommandResult:
    """Pair a service with a product."""
    await _settle(session, service)
    await paired(session, service, product)
    return CommandResult({"id": service, "productId": product}, f"Service {service} is paired with product {product}.")


@command(app, "unpair", topics=TOPICS_CHANGED)
async def unpair(session: DatabaseSession, service: Service) -> CommandResult:
    """Unpair a service from its product."""
    await _settle(session, service)
    row = await session.sql.fetchrow(SERVICE, service)
    product = None if row is None else row["product_id"]
    if product is None:
        raise CommandFailed(f"Service {service} is not paired with a product.")
    await session.sql.execute(SET, service, None)
    return CommandResult(
        {"id": service, "productId": product}, f"Service {service} is no longer paired with product {product}."
    )
