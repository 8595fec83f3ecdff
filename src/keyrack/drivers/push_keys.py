"""The key pair of the server for Web Push. Browsers bind their subscriptions to its public key."""

from __future__ import annotations

from typing import LiteralString

from cryptography.hazmat.primitives.asymmetric import ec

from keyrack.core.base64url import base64url, octets
from keyrack.db.connection import Database, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import PUSH_KEY
from keyrack.drivers.push_messages import COORDINATE, CURVE, public_bytes

ID = 1  # of the only row
PLACE = (PUSH_KEY, 0, ID)
LOCK: LiteralString = "lock table push_key in share row exclusive mode"
PRIVATE: LiteralString = "select private_key from push_key"
PUBLIC: LiteralString = "select public_key from push_key"
INSERT: LiteralString = "insert into push_key (push_key_id, public_key, private_key) values ($1, $2, $3)"
DELETE: LiteralString = "delete from push_key"
DELETE_SUBSCRIPTIONS: LiteralString = "delete from driver_push"


async def ensure(db: Database, vault: Encryption) -> ec.EllipticCurvePrivateKey:
    """The private key. It is created at the first call, once, even if several workers start together.

    Raises `CannotDecrypt`.
    """
    sealed = await db.fetchval(PRIVATE)
    if sealed is None:
        async with db.transaction() as connection:
            await connection.execute(LOCK)
            sealed = await connection.fetchval(PRIVATE)
            if sealed is None:
                key = ec.generate_private_key(CURVE)
                secret = base64url(key.private_numbers().private_value.to_bytes(COORDINATE, "big"))
                sealed = await vault.seal(connection, secret, *PLACE)
                await connection.execute(INSERT, ID, public_bytes(key), sealed)
    return ec.derive_private_key(int.from_bytes(octets(await vault.open(sealed, *PLACE)), "big"), CURVE)


async def public(statements: Statements) -> str | None:
    """The public key for browsers; None until a worker has created it."""
    key = await statements.fetchval(PUBLIC)
    return None if key is None else base64url(key)


async def lose(statements: Statements) -> None:
    """Delete an undecryptable key, with its subscriptions."""
    await statements.execute(DELETE)
    await statements.execute(DELETE_SUBSCRIPTIONS)
