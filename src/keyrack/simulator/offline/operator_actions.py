"""Actions of an operator that the API does not offer: customer, boxes, services, keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.assignments.customer_lock import flush_all
from keyrack.auth.password_hashing import Passwords
from keyrack.core import secret_hashes
from keyrack.core.api_client.credentials import Login, ServerAddress
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.offline_keys import issuing_keys, key_policy, root_keys
from keyrack.offline_keys.issuing_keys import IssuingKeySigner, IssuingKeySigners

USERNAME = "garage"

CUSTOMER: LiteralString = "insert into customer (name) values ('Garage without a network') returning customer_id"
MANAGER: LiteralString = """
with m as (insert into manager (username, address_form, password_hash, proven_at, proven_by)
  values ($1, $1, $2, now(), 'operator') returning manager_id),
c as (insert into manager_customer (customer_id, manager_id) select $3, manager_id from m
  returning customer_id, manager_id)
insert into manager_role (customer_id, manager_id, role) select customer_id, manager_id, 'Owner' from c
"""
API_KEY: LiteralString = "insert into api_key (name, hash) values ('Garage', $1)"
SDK_KEY: LiteralString = "insert into sdk_key (customer_id, name, hash) values ($1, 'Garage', $2)"
BOX: LiteralString = """
with p as (insert into product (customer_id, unique_id, serial_number, sap_number, kind)
  values ($1, $2, $2, 'GARAGE', 'Box') returning customer_id, product_id),
s as (insert into service (customer_id, name, product_id) select customer_id, $2, product_id from p)
select product_id from p
"""
SEQUENCE: LiteralString = "select sequence from key_authority where customer_id = $1"
SERVICE: LiteralString = """
update service set is_terminated = $3, terminated_at = case when $3 then now() end where customer_id = $1
  and product_id = $2
"""


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of the server, with the simulated customer."""

    db: Database
    settings: Settings
    customer: int
    sdk_key: str
    server: ServerAddress
    login: Login

    @classmethod
    async def begin(cls, db: Database, settings: Settings) -> Operator:
        """Create the customer, its manager, and the keys of callers and apps."""
        api_key, sdk_key, password = secret_hashes.new_secret(), secret_hashes.new_secret(), secret_hashes.new_secret()
        hashed = await Passwords().hash(password)
        async with db.transaction() as connection:
            customer = await connection.fetchval(CUSTOMER)
            await connection.execute(MANAGER, f"{USERNAME}-{customer}", hashed, customer)
            await connection.execute(API_KEY, secret_hashes.digest(api_key))
            await connection.execute(SDK_KEY, customer, secret_hashes.digest(sdk_key))
        server = ServerAddress(f"{settings.public_url}/v3", api_key, customer, settings.brand)
        return cls(db, settings, customer, sdk_key, server, Login(f"{USERNAME}-{customer}", password))

    async def box(self, serial: str) -> int:
        """Create a box with its service; returns the product."""
        async with self.db.transaction() as connection:
            return await connection.fetchval(BOX, self.customer, serial)

    async def choose(self, limit: int | None, *, opens_uncertain: bool) -> None:
        """As `keyrack keys policy` does."""
        async with self.db.transaction() as connection:
            await key_policy.change(connection, self.customer, {"freshness": limit, "opens_uncertain": opens_uncertain})

    async def serve(self, product: int, *, is_served: bool) -> None:
        """As `keyrack service change --terminate` or `--reinstate` does."""
        async with self.db.transaction() as connection:
            await flush_all(self.db, connection, [self.customer], self.settings)
            await connection.execute(SERVICE, self.customer, product, not is_served)

    async def sequence(self) -> int:
        """The sequence of the server's current key set."""
        return await self.db.fetchval(SEQUENCE, self.customer)

    async def rotate(self, *, revoke: bool = False) -> None:
        """As `keyrack keys rotate` does, optionally with `--revoke`."""
        vault = await open_vault(self.db, self.settings)
        async with self.db.transaction() as connection:
            await issuing_keys.rotate(connection, vault, self.customer, revoke=revoke)

    async def replace_root(self) -> None:
        """As `keyrack keys root replace` does."""
        vault = await open_vault(self.db, self.settings)
        async with self.db.transaction() as connection:
            await root_keys.replace(connection, vault, self.customer)

    async def leak_issuing_key(self) -> IssuingKeySigner:
        """The current issuing key, as a thief would read it from the server's memory."""
        signers = IssuingKeySigners(await open_vault(self.db, self.settings))
        async with self.db.transaction() as connection:
            signer = await signers.newest(connection, self.customer)
        assert signer is not None  # noqa: S101 - boxes are enrolled
        return signer
