"""The demo: fleets, people, keys, the catalogue and `demo.env`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import LiteralString

from keyrack.api.permissions import Permission
from keyrack.auth import client_registry
from keyrack.auth.declarations import NewClient
from keyrack.auth.password_hashing import Passwords
from keyrack.auth.usernames import MANAGERS
from keyrack.core import secret_hashes
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.simulator.demo.catalogue import write_catalogue
from keyrack.simulator.demo.driver import write_driver
from keyrack.simulator.demo.fleet import write_fleet
from keyrack.simulator.demo.history import midnight, write_events, write_telemetry
from keyrack.simulator.demo.people import FLEETS

REAL_DATA = ErrorCode(
    "others-data-there",
    "The database holds customers that are not the demo's. The demo wants a database of its own: see --state.",
)

USERNAME = "demo"
KEY_NAME = "Keyrack demo"
SEED = 20_260_915
CLIENTS_MOST = 1_000_000  # limit of clients, high enough for the demo's own client
ENV = "demo.env"
NAMES = (
    "KEYRACK_URL",
    "KEYRACK_API_KEY",
    "KEYRACK_CLIENT_ID",
    "KEYRACK_CLIENT_SECRET",
    "KEYRACK_USERNAME",
    "KEYRACK_PASSWORD",
    "KEYRACK_CUSTOMER_ID",
    "KEYRACK_SDK_KEY",
    "KEYRACK_DEVICE_KEY",
    "KEYRACK_DRIVER_EMAIL",  # of the app at /drive
    "KEYRACK_DRIVER_PASSWORD",
    "KEYRACK_STATE",  # lets commands find the same database
)
DRIVER_NAMES = ("KEYRACK_DRIVER_EMAIL", "KEYRACK_DRIVER_PASSWORD")

# Scopes of the machine client in `demo.env`, as the documents need them. No scope covers managers, clients or erasure
SCOPES = (
    Permission.CUSTOMER_READ, Permission.CARS_WRITE, Permission.USERS_WRITE, Permission.ASSIGNMENTS_WRITE,
    Permission.GROUPS_WRITE, Permission.PRODUCTS_READ, Permission.SERVICES_READ, Permission.INSTALLATIONS_WRITE,
    Permission.PAIRINGS_WRITE, Permission.KEYS_READ, Permission.SDK_WRITE, Permission.EVENTS_WRITE,
    Permission.POSITIONS_READ, Permission.ACCESS_READ, Permission.CHANGES_READ, Permission.OPERATIONS_READ,
    Permission.BATCH_WRITE, Permission.WEBHOOKS_WRITE, Permission.LIVE_READ,
)  # fmt: skip

LOCK: LiteralString = "select pg_advisory_xact_lock(7260920)"  # any constant: one load at a time
LOADED: LiteralString = """
select m.manager_id, (select min(customer_id) from manager_customer c where c.manager_id = m.manager_id) as customer_id
from manager m where manager_id = {id}
""".replace("{id}", MANAGERS.key_by_form("$1"))
KNOWN: LiteralString = """
select exists (select from api_key where hash = $1 and revoked_at is null)
  and exists (select from device_key where hash = $2 and revoked_at is null and is_gateway)
  and exists (select from client c join client_secret s using (client_id) where c.subject::text = $3 and s.hash = $4)
"""
CLIENTS: LiteralString = "select client_id from client where name = $1 and managed_by = $2"
IN_USE: LiteralString = "select exists (select from customer)"
INSERT_MANAGER: LiteralString = """
with m as (insert into manager (username, address_form, password_hash, proven_at, proven_by)
  values ($1, $1, $2, now(), 'operator') returning manager_id)
insert into manager_customer (customer_id, manager_id) select unnest($3::integer[]), manager_id from m
returning manager_id
"""
OWNER: LiteralString = """
insert into manager_role (customer_id, manager_id, role) select unnest($2::integer[]), $1, 'Owner'
"""
INSERT_API_KEY: LiteralString = "insert into api_key (name, hash) values ($1, $2)"
INSERT_SDK_KEY: LiteralString = "insert into sdk_key (customer_id, name, hash) values ($1, $2, $3)"
INSERT_DEVICE_KEY: LiteralString = """
insert into device_key (customer_id, name, hash, is_gateway, scopes) values ($1, $2, $3, true, '{telemetry,events}')
"""
SET_PASSWORD: LiteralString = "update manager set password_hash = $2 where manager_id = " + MANAGERS.key_by_form("$1")
REVOKE: LiteralString = """
with a as (update api_key set revoked_at = now() where name = $1 and revoked_at is null),
d as (update device_key set revoked_at = now() where name = $1 and customer_id = $2 and revoked_at is null)
update sdk_key set revoked_at = now() where name = $1 and customer_id = $2 and revoked_at is null
"""


@dataclass(frozen=True, slots=True)
class DemoCredentials:
    """Credentials of a client of the demo. The database has only hashes, so they are known only at creation."""

    api_key: str
    username: str
    password: str
    customer: int
    sdk_key: str
    device_key: str = ""
    client_id: str = ""
    client_secret: str = ""
    driver_email: str = ""
    driver_password: str = ""


async def prepare(db: Database, settings: Settings) -> dict[str, str]:
    """Load the demo if it is not loaded yet, and write `demo.env`. Returns the contents of that file.

    Each call renews the assignments of the demo's driver. Valid credentials in the file stay unchanged. If the file is
    missing or belongs to another database, the credentials are replaced.
    """
    path = settings.state / ENV
    url = f"{settings.public_url}/v3"
    credentials = await load(db, settings)
    values = read_env(path) | {"KEYRACK_URL": url, "KEYRACK_STATE": _state(path)}
    if credentials is None and not await _good(db, values):
        credentials = await renew(db)
    email, password = await _prepare_driver(db, values.get("KEYRACK_DRIVER_PASSWORD"))
    if credentials is None:
        return _write(path, values | dict(zip(DRIVER_NAMES, (email, password), strict=True)))
    credentials = replace(credentials, driver_email=email, driver_password=password)
    return write_env(path, url, credentials, credentials.customer)


async def _prepare_driver(db: Database, password: str | None) -> tuple[str, str]:
    """The driver's address and password. Renews the driver's assignments."""
    async with db.transaction() as connection:
        await connection.execute(LOCK)
        customer = (await connection.fetch(LOADED, USERNAME))[0]["customer_id"]
        return await write_driver(connection, customer, password)


async def load(db: Database, settings: Settings) -> DemoCredentials | None:
    """Load the demo in one transaction; None if it is already loaded. Raises `Conflict` if other data exist."""
    now = datetime.now(UTC)
    random = Random(SEED)  # noqa: S311 - a fixed seed makes the demo reproducible
    async with db.transaction() as connection:
        await connection.execute(LOCK)
        if await connection.fetchrow(LOADED, USERNAME) is not None:
            return None
        if await connection.fetchval(IN_USE):
            raise Conflict(REAL_DATA)
        customers: list[int] = []
        for fleet in FLEETS:
            written = await write_fleet(connection, fleet, midnight(now), random)
            await write_events(connection, written, fleet.events, fleet.town, now, random)
            await write_telemetry(connection, written, now, random)
            customers.append(written.customer)
        await write_catalogue(connection)
        password = secret_hashes.new_secret()
        manager = await connection.fetchval(INSERT_MANAGER, USERNAME, await Passwords().hash(password), customers)
        await connection.execute(OWNER, manager, customers)
        return await _write_keys(connection, customers[0], password)


async def renew(db: Database) -> DemoCredentials:
    """Replace the credentials of the demo."""
    async with db.transaction() as connection:
        await connection.execute(LOCK)
        customer = (await connection.fetch(LOADED, USERNAME))[0]["customer_id"]
        password = secret_hashes.new_secret()
        await connection.execute(SET_PASSWORD, USERNAME, await Passwords().hash(password))
        await connection.execute(REVOKE, KEY_NAME, customer)
        for row in await connection.fetch(CLIENTS, KEY_NAME, customer):
            await client_registry.remove(connection, row["client_id"])
        return await _write_keys(connection, customer, password)


async def _good(db: Database, env: Mapping[str, str]) -> bool:
    """Whether the credentials are complete and belong to this database."""
    complete = all(env.get(name) for name in NAMES if name not in DRIVER_NAMES)
    if not complete:
        return False
    return await db.fetchval(
        KNOWN, secret_hashes.digest(env["KEYRACK_API_KEY"]), secret_hashes.digest(env["KEYRACK_DEVICE_KEY"]),
        env["KEYRACK_CLIENT_ID"], secret_hashes.digest(env["KEYRACK_CLIENT_SECRET"]),
    )  # fmt: skip


async def _write_keys(connection: Connection, customer: int, password: str) -> DemoCredentials:
    api_key, sdk_key, device_key = secret_hashes.new_secret(), secret_hashes.new_secret(), secret_hashes.new_secret()
    await connection.execute(INSERT_API_KEY, KEY_NAME, secret_hashes.digest(api_key))
    await connection.execute(INSERT_SDK_KEY, customer, KEY_NAME, secret_hashes.digest(sdk_key))
    await connection.execute(INSERT_DEVICE_KEY, customer, KEY_NAME, secret_hashes.digest(device_key))
    new_client = NewClient(name=KEY_NAME, scopes=[str(scope) for scope in SCOPES])
    client = await client_registry.add(connection, customer, new_client, CLIENTS_MOST)
    assert client is not None  # noqa: S101 - the limit is out of reach
    await client_registry.grant_role(connection, customer, client.id, new_client.scopes)
    return DemoCredentials(
        api_key, USERNAME, password, customer, sdk_key, device_key, str(client.subject), client.secret
    )


def write_env(path: Path, url: str, credentials: DemoCredentials, customer_id: int) -> dict[str, str]:
    """Write a file for `. demo.env`, readable only by its owner. Returns its contents."""
    values = (
        url,
        credentials.api_key,
        credentials.client_id,
        credentials.client_secret,
        credentials.username,
        credentials.password,
        str(customer_id),
        credentials.sdk_key,
        credentials.device_key,
        credentials.driver_email,
        credentials.driver_password,
        _state(path),
    )
    return _write(path, dict(zip(NAMES, values, strict=True)))


def _state(path: Path) -> str:
    """The state directory that contains a `demo.env`."""
    return str(path.parent.resolve())


def _write(path: Path, values: Mapping[str, str]) -> dict[str, str]:
    values = {name: values[name] for name in NAMES}
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())
    new.replace(path)
    return values


def read_env(path: Path) -> dict[str, str]:
    """The contents of a `demo.env`; empty if there is none."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError):
        return {}
    matches = (re.fullmatch(r"export (KEYRACK_\w+)=(.*)", line) for line in lines)
    return {match[1]: "".join(shlex.split(match[2])) for match in matches if match}
