"""The operator's providers, each pinned to issuer, client and algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from keyrack.core.addresses import address_form
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import CLIENT_SECRET

# Algorithms of identity tokens, each with public keys (RFC 7518, section 3.1; RFC 8037)
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LONGEST = 1_000  # characters of an issuer, a client id and a label

_COLUMNS: LiteralString = "provider_id, name, label, issuer, client_id, algorithms, counts_mfa, driver_customer_id"
NAMED: LiteralString = "select " + _COLUMNS + " from provider where name = $1"
OF_ID: LiteralString = "select " + _COLUMNS + " from provider where provider_id = $1"
SHOWN: LiteralString = "select name, label from provider order by name limit $1"
OF_DRIVERS: LiteralString = """
select provider_id, label, driver_customer_id from provider where driver_customer_id is not null order by name limit $1
"""
SECRET: LiteralString = "select client_secret from provider where provider_id = $1"  # noqa: S105 - SQL
INSERT: LiteralString = """
insert into provider (name, label, issuer, client_id, client_secret, algorithms, counts_mfa)
values ($1, $2, $3, $4, '', $5, $6) returning provider_id
"""
SEAL: LiteralString = "update provider set client_secret = $2 where provider_id = $1"
LIST: LiteralString = """
select provider_id as id, name, label, issuer, client_id as "clientId", algorithms, counts_mfa as "countsMfa",
  array(select domain from provider_domain d where d.provider_id = p.provider_id order by 1) as domains,
  (select count(*) from manager_identity i where i.provider_id = p.provider_id) as people,
  driver_customer_id as "driverCustomerId",
  (select count(*) from driver_identity i where i.provider_id = p.provider_id) as drivers, created_at as "createdAt"
from provider p order by name
"""
# The previous release stored a domain in its own notation
DOMAINS: LiteralString = "select domain from provider_domain order by 1"
# The audit trigger rejects another key. A domain whose normal form is listed already stays, and matches no address
NORMALISE: LiteralString = """
with old as (delete from provider_domain where domain = $1
  and not exists (select from provider_domain where domain = $2) returning provider_id)
insert into provider_domain (domain, provider_id) select $2, provider_id from old
"""
CONFLICTS: LiteralString = """
select o.domain, p.name, h.domain as form, q.name as holder
from unnest($1::text[], $2::text[]) f (domain, form) join provider_domain o on o.domain = f.domain
join provider p using (provider_id) join provider_domain h on h.domain = f.form
join provider q on q.provider_id = h.provider_id
"""
MOST = 50  # buttons on the sign-in page


@dataclass(frozen=True, slots=True)
class Provider:
    """The pinned properties of a provider. Its own metadata change none of them."""

    id: int
    name: str
    label: str
    issuer: str
    client_id: str
    algorithms: tuple[str, ...]
    counts_mfa: bool  # whether its report of a second factor counts
    driver_customer: int | None = None  # the customer whose drivers it signs in


def _provider(row: Row | None) -> Provider | None:
    if row is None:
        return None
    return Provider(
        row["provider_id"], row["name"], row["label"], row["issuer"], row["client_id"], tuple(row["algorithms"]),
        row["counts_mfa"], row["driver_customer_id"],
    )  # fmt: skip


async def named(statements: Statements, name: str) -> Provider | None:
    """The provider with this name; None if there is none."""
    return _provider(await statements.fetchrow(NAMED, name))


async def of_id(statements: Statements, id: int) -> Provider | None:
    """The provider with this id; None if there is none."""
    return _provider(await statements.fetchrow(OF_ID, id))


async def as_json(statements: Statements) -> list[tuple[str, str]]:
    """Name and label of each provider, for pages."""
    return [(row["name"], row["label"]) for row in await statements.fetch(SHOWN, MOST)]


async def of_drivers(statements: Statements) -> list[Row]:
    """Id, label and customer of each provider that signs in drivers."""
    return await statements.fetch(OF_DRIVERS, MOST)


async def secret(statements: Statements, vault: Encryption, provider: Provider) -> str:
    """The client's secret at a provider. Raises `CannotDecrypt`."""
    return await vault.open(await statements.fetchval(SECRET, provider.id), CLIENT_SECRET, 0, provider.id)


async def seal(connection: Connection, vault: Encryption, id: int, client_secret: str) -> None:
    """Seal and store the client's secret. Raises `CannotDecrypt`."""
    await connection.execute(SEAL, id, await vault.seal(connection, client_secret, CLIENT_SECRET, 0, id))


async def add(
    connection: Connection,
    vault: Encryption,
    name: str,
    label: str,
    issuer: str,
    client: tuple[str, str],
    algorithms: Sequence[str],
    *,
    counts_mfa: bool,
) -> int:
    """Add a provider with the id and secret of its client. Returns its id.

    Raises `asyncpg.IntegrityConstraintViolationError` if the name exists already.
    """
    id: int = await connection.fetchval(INSERT, name, label, issuer, client[0], list(algorithms), counts_mfa)
    await seal(connection, vault, id, client[1])
    return id


def comparable_domain(domain: str) -> str:
    """The normal form of a domain, or else the domain itself."""
    return address_form(f"@{domain}").removeprefix("@")


async def normalise_domains(db: Database, _settings: Settings) -> None:
    """Replace domains of an older notation by their normal form. A housekeeping step."""
    for domain, form in await _other_notations(db):
        await db.execute(NORMALISE, domain, form)


async def domain_conflicts(statements: Statements) -> list[Row]:
    """Domains of an older notation whose normal form is listed too.

    Each row has the domain, the name of its provider, the form, and the holder of the form.
    """
    notations = await _other_notations(statements)
    return await statements.fetch(CONFLICTS, [domain for domain, _ in notations], [form for _, form in notations])


async def _other_notations(statements: Statements) -> list[tuple[str, str]]:
    """Each domain in another notation, with its normal form.

    A domain without a normal form stays, and matches no address.
    """
    domains = [row["domain"] for row in await statements.fetch(DOMAINS)]
    forms = [(domain, comparable_domain(domain)) for domain in domains]
    return [(domain, form) for domain, form in forms if domain != form]
