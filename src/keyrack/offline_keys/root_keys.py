"""Replacement of a customer's root by a new one (docs/keys.md, "Keys of the authority")."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Connection
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import ROOT_KEY
from keyrack.offline_keys import cose
from keyrack.offline_keys.issuing_keys import (
    AUTHORITY,
    IssuingKeySigners,
    RootKey,
    load_authority,
    named_keys,
    next_claims,
    private_root,
    sequence_of,
    sign_key_set,
    upgrade,
)
from keyrack.offline_keys.message_fields import KEY_SET, ROOT
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.public_key import PublicKey

INSERT_ROOT: LiteralString = "insert into new_root (customer_id, sequence, message) values ($1, $2, $3)"
SET_ROOT: LiteralString = """
update key_authority set private_key = $2, public_key = $3, sequence = $4, key_set = $5 where customer_id = $1
"""


async def replace(connection: Connection, vault: Encryption, customer: int) -> PublicKey | None:
    """Replace the root by a new one, which signs the key set.

    The present root signs the new one. Returns the public key of the new root, or None if the customer has no
    authority. Raises `CannotDecrypt`, `InconsistentKeys`, `OfflineRoot`.
    """
    await upgrade(connection, vault, customer)
    authority = await connection.fetchrow(AUTHORITY, customer)
    if authority is None:
        return None
    signers = IssuingKeySigners(vault)
    await signers.check(connection, customer, authority)
    old = await private_root(vault, customer, authority)
    new = PrivateKey.generate()
    message = await sign_root(connection, customer, old, new.public)
    key_set = await sign_key_set(connection, customer, new, *named_keys(authority))
    await install_root(connection, vault, customer, RootKey(new.public, new), message, key_set)
    return new.public


async def sign_root(connection: Connection, customer: int, old: PrivateKey, new: PublicKey) -> bytes:
    """The message by which the old root names the new one."""
    return cose.sign(ROOT, old.public.kid, await next_claims(connection, customer, root=new), old.sign)


async def install_root(
    connection: Connection, vault: Encryption, customer: int, root: RootKey, message: bytes, key_set: bytes
) -> None:
    """Store a new root, its message, and its key set."""
    await connection.execute(INSERT_ROOT, customer, sequence_of(message, ROOT), message)
    sealed = await vault.seal(connection, root.to_text(), ROOT_KEY, customer, customer)
    columns = sealed, load_authority(root.public), sequence_of(key_set, KEY_SET), key_set
    await connection.execute(SET_ROOT, customer, *columns)
