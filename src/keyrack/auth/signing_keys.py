"""The keys that sign tokens: creation, loading, rotation and revocation.

Their private parts are sealed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import structlog
from joserfc.jwk import KeySet, RSAKey

from keyrack.db.connection import Connection, Database, Statements
from keyrack.db.encryption.cipher import CannotDecrypt, Encryption
from keyrack.db.encryption.encrypted_columns import PRIVATE_KEY

log = structlog.get_logger("keyrack.signing_keys")

LOAD: LiteralString = """
select kid, private_key from signing_key where revoked_at is null order by created_at desc, kid
"""
# The key that is created last is the newest, whatever the clock is
INSERT: LiteralString = """
insert into signing_key (kid, private_key, created_at) values ($1, $2, greatest(
  clock_timestamp(), (select max(created_at) + interval '1 microsecond' from signing_key)))
"""
# A replaced key stays for as long as a token that it signed may live
DROP_OLD: LiteralString = """
delete from signing_key k where k.revoked_at is null and exists (
  select from signing_key n where n.created_at > k.created_at and n.created_at < now() - interval '2 hours')
"""
LOCK: LiteralString = "lock table signing_key in share row exclusive mode"
CURRENT: LiteralString = "select kid from signing_key where revoked_at is null order by created_at desc, kid limit 1"
REVOKE: LiteralString = """
update signing_key set revoked_at = now(), private_key = null where kid = $1 and revoked_at is null
returning revoked_at
"""
REVOKED: LiteralString = "select revoked_at from signing_key where kid = $1"
REVOKE_ALL: LiteralString = """
update signing_key set revoked_at = now(), private_key = null where revoked_at is null
"""


class SigningKeys:
    """The RS256 keys of tokens, by their JSON texts. The newest signs, all verify."""

    def __init__(self, keys: Mapping[str, RSAKey]) -> None:
        self._keys = keys
        self.newest = next(iter(keys.values()))
        self.set = KeySet(list(keys.values()))

    @classmethod
    async def load(cls, statements: Statements, vault: Encryption, before: SigningKeys | None) -> SigningKeys:
        """All keys that are not revoked.

        To read a key that was not in `before` takes 30 ms. A key that cannot be decrypted is left out. Raises
        `CannotDecrypt` if none can be.
        """
        read: Mapping[str, RSAKey] = before._keys if before else {}
        keys: dict[str, RSAKey] = {}
        for row in await statements.fetch(LOAD):
            try:
                text = await vault.open(row["private_key"], PRIVATE_KEY, 0, row["kid"])
            except CannotDecrypt:
                log.error("signing key skipped, decryption failed", kid=row["kid"], alert=True)
            else:
                keys[text] = read.get(text) or RSAKey.import_key(json.loads(text))
        if not keys:
            raise CannotDecrypt
        return cls(keys)

    def public(self) -> Mapping[str, Any]:
        """The JSON Web Key Set that verifiers fetch (RFC 7517)."""
        return self.set.as_dict(private=False)


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """The result of a revocation."""

    at: datetime  # the time of the revocation
    before: bool  # whether the key was revoked already
    signs: str  # `kid` of the key that signs now


async def ensure(db: Database, vault: Encryption) -> None:
    """Create the first key, once, even if several processes start together."""
    async with db.transaction() as connection:
        await connection.execute(LOCK)
        if await connection.fetchval(CURRENT) is None:
            await _make(connection, vault)


async def rotate(connection: Connection, vault: Encryption) -> str:
    """Create a signing key, and drop keys whose tokens have expired.

    Returns the `kid` of the new key.
    """
    await connection.execute(LOCK)
    kid = await _make(connection, vault)
    await connection.execute(DROP_OLD)
    return kid


async def revoke(connection: Connection, vault: Encryption, kid: str) -> KeyRevocation | None:
    """Revoke a key and its tokens, and delete its private part.

    Returns None if there is no such key. If it is the signing key, a new one replaces it in the same transaction, never
    an older one.
    """
    await connection.execute(LOCK)
    current = await connection.fetchval(CURRENT)
    at = await connection.fetchval(REVOKE, kid)
    before = at is None
    at = at or await connection.fetchval(REVOKED, kid)
    if at is None:
        return None
    if current is None or current == kid:
        current = await _make(connection, vault)
    return KeyRevocation(at, before, current)


async def revoke_all(connection: Connection, vault: Encryption) -> str:
    """Revoke every key, and make a new one. Returns its `kid`."""
    await connection.execute(LOCK)
    await connection.execute(REVOKE_ALL)
    return await _make(connection, vault)


async def _make(connection: Connection, vault: Encryption) -> str:
    kid = secrets.token_hex(16)
    key = await asyncio.to_thread(RSAKey.generate_key, 2048, {"use": "sig", "alg": "RS256", "kid": kid})
    private = json.dumps(key.as_dict(private=True))
    await connection.execute(INSERT, kid, await vault.seal(connection, private, PRIVATE_KEY, 0, kid))
    return kid
