"""A customer's authority: root, issuing keys, service keys and policy.

All private keys are sealed, and public keys are derived from them. So an attacker who can write to the database, but
has no master key, cannot make boxes trust another key. The columns with public keys are compared with the derived ones.

The root is decrypted to sign a key set and to check one. Another key is decrypted once in each process. The signing key
is read from the database each time.

An authority of version 1 of the protocol has no service key. Its next use replaces all its keys (`upgrade`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, LiteralString

import structlog

from keyrack.core.error_codes import NOT_NOW, ErrorCode
from keyrack.core.errors import Unavailable
from keyrack.db.connection import Connection, Row, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import ISSUING_KEY, ROOT_KEY, SERVICE_KEY
from keyrack.offline_keys import cose
from keyrack.offline_keys.cose import MessageRefused, PublicKey
from keyrack.offline_keys.message_fields import KEY_SET, LONGEST_URI, ROOT, Message
from keyrack.offline_keys.p256 import PrivateKey, verify
from keyrack.offline_keys.timestamps import now

log = structlog.get_logger("keyrack.offline_keys")

INCONSISTENT = ErrorCode(
    "box-keys-inconsistent",
    "The box keys in the database do not match the sealed keys.",
    "Ask the operator to run `keyrack doctor`, which names the keys that differ.",
)

EXISTS: LiteralString = "select exists (select from key_authority where customer_id = $1)"
NEXT_SET: LiteralString = "select nextval('key_set_seq')::integer"
INSERT: LiteralString = """
insert into key_authority (customer_id, private_key, public_key, sequence, key_set) values ($1, $2, $3, $4, $5)
on conflict (customer_id) do nothing returning true
"""
LOCK: LiteralString = "select from key_authority where customer_id = $1 for update"
# The authority of customer $1, its new roots with the oldest first, and its issuing and service keys that are not
# revoked. The newest key of a kind is the first, and signs
AUTHORITY: LiteralString = """
select t.private_key as sealed_root, t.public_key as root, t.sequence, t.key_set, t.freshness as chosen_freshness,
  t.opens_uncertain, t.created_at, i.signers, i.signer_keys, s.services, s.service_keys, n.roots
from key_authority t cross join lateral (
  select coalesce(array_agg(issuing_key_id order by created_at desc, issuing_key_id desc), '{}') as signers,
    coalesce(array_agg(public_key order by created_at desc, issuing_key_id desc), '{}') as signer_keys
  from issuing_key where customer_id = t.customer_id and revoked_at is null) i
cross join lateral (
  select coalesce(array_agg(service_key_id order by created_at desc, service_key_id desc), '{}') as services,
    coalesce(array_agg(public_key order by created_at desc, service_key_id desc), '{}') as service_keys
  from service_key where customer_id = t.customer_id and revoked_at is null) s
cross join lateral (
  select coalesce(array_agg(message order by sequence), '{}') as roots
  from new_root where customer_id = t.customer_id) n
where t.customer_id = $1
"""
# Columns that `check` compares
CHECKED = (
    "sealed_root", "root", "sequence", "key_set", "signers", "signer_keys", "services", "service_keys", "roots"
)  # fmt: skip
# A rotation waits for this lock, and this lock waits for a rotation
HOLD: LiteralString = "select from key_authority where customer_id = $1 for key share"
IS_OF_VERSION_1: LiteralString = """
select exists (select from key_authority where customer_id = $1)
  and not exists (select from service_key where customer_id = $1)
"""
# Until when keys of the older issuing key may still open
OLDER_OPENS: LiteralString = """
select max(expires_at) from box_key
where customer_id = $1 and issuing_key_id <> $2 and is_placed and revoked_at is null
"""
# Signatures of removed keys end: keys are revoked, lists and receipts are signed again
END_KEYS: LiteralString = """
update box_key set revoked_at = clock_timestamp()
where customer_id = $1 and issuing_key_id <> $2 and is_placed and revoked_at is null
"""
END_LISTS: LiteralString = "update status_generation set list = null where customer_id = $1"
END_RECEIPTS: LiteralString = "update box_epoch set receipt = null where customer_id = $1 and receipt is not null"
# A stolen issuing key may have signed lists of a box's present generation, and of later ones. A URI ends with its
# generation. A URI that is too long loses its address, since boxes find a list by the URI alone
BEGIN_GENERATIONS: LiteralString = """
insert into status_generation (customer_id, product_id, epoch, generation, uri)
select customer_id, product_id, epoch, generation + 1, case when length(next) <= $2 then next
  else 'keyrack:' || substr(next, strpos(next, '/v3/boxes/')) end
from (select distinct on (product_id, epoch) customer_id, product_id, epoch, generation,
    regexp_replace(uri, '[0-9]+$', (generation + 1)::text) as next
  from status_generation where customer_id = $1 order by product_id, epoch, generation desc) g
"""
DROP_ROOTS: LiteralString = "delete from new_root where customer_id = $1 and message <> all($2::bytea[])"
FORGET_SECRETS: LiteralString = "update box_epoch set advertising = null where advertising is not null"
LOSE: LiteralString = "with lost as (delete from key_authority returning true) select count(*)::integer from lost"
SET: LiteralString = """
update key_authority set public_key = $2, sequence = $3, key_set = $4 where customer_id = $1
"""


@dataclass(frozen=True, slots=True)
class KeyKind:
    """A kind of key under the root, with its statements and column."""

    column: str
    next_id: LiteralString
    insert: LiteralString  # customer, id, private key, public key
    newest: LiteralString  # customer -> id of the signing key
    sealed: LiteralString  # customer, id -> private key
    revoke: LiteralString  # customer, ids of the keys that stay


def _kind(column: str, table: LiteralString) -> KeyKind:
    id: LiteralString = table + "_id"
    return KeyKind(
        column,
        "select nextval(pg_get_serial_sequence('" + table + "', '" + id + "'))::integer",
        "insert into " + table + " (customer_id, " + id + ", private_key, public_key) values ($1, $2, $3, $4)",
        "select " + id + " from " + table + " where customer_id = $1 and revoked_at is null"
        " order by created_at desc, " + id + " desc limit 1",
        "select private_key from " + table + " where customer_id = $1 and " + id + " = $2",
        "update " + table + " set revoked_at = now(), private_key = null"
        " where customer_id = $1 and revoked_at is null and " + id + " <> all($2::integer[])",
    )  # fmt: skip


ISSUING, SERVICE = _kind(ISSUING_KEY, "issuing_key"), _kind(SERVICE_KEY, "service_key")

OFFLINE = "offline:"  # prefix of the public key of a root whose private key is on another machine
REMEMBERED = 1_000  # cached keys; a full cache is cleared


class InconsistentKeys(Unavailable):
    """A key in the database differs from the sealed one.

    Another program has written it.
    """

    def __init__(self, customer: int, difference: str, *, is_logged: bool = True) -> None:
        super().__init__(INCONSISTENT)
        self.difference = difference
        if is_logged:
            log.error("box keys inconsistent", customer=customer, reason=difference, alert=True)


class KeySetOverlap(Exception):
    """Keys of the older issuing key may open until `until`.

    A key set has at most two issuing keys.
    """

    def __init__(self, until: object) -> None:
        super().__init__(until)
        self.until = until


class OfflineRoot(Exception):
    """The private root is on another machine, which must sign."""


@dataclass(frozen=True, slots=True)
class KeySigner:
    """A decrypted key under the root."""

    id: int
    key: PrivateKey

    @property
    def kid(self) -> bytes:
        return self.key.public.kid


class IssuingKeySigner(KeySigner):
    """An issuing key, which signs keys and status lists."""


class ServiceKeySigner(KeySigner):
    """A service key, which signs times, receipts and provisionings."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """A customer's key set, its root, and the new roots to it."""

    root: PublicKey
    data: bytes
    roots: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RootKey:
    """A root, with its private key unless that is on another machine.

    Its text is sealed in either case.
    """

    public: PublicKey
    private: PrivateKey | None

    @classmethod
    def from_text(cls, text: str) -> RootKey:
        """The root that `to_text` wrote. Raises `ValueError`."""
        if text.startswith(OFFLINE):
            return cls(public(base64.b64decode(text.removeprefix(OFFLINE), validate=True)), None)
        key = PrivateKey.from_text(text)
        return cls(key.public, key)

    def to_text(self) -> str:
        if self.private is not None:
            return self.private.to_text()
        return OFFLINE + base64.b64encode(load_authority(self.public)).decode()


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """A rotation: new keys of both kinds, and older keys that stay."""

    key: PrivateKey
    service: PrivateKey
    stay: list[int]  # issuing keys
    services_stay: list[int]
    keys: list[PublicKey]  # issuing keys of the new set, the oldest first
    service_keys: list[PublicKey]
    is_revoking: bool


class IssuingKeySigners:
    """The decrypted keys and checked key sets of this process.

    With `logs`, inconsistent keys are also logged with an alert.
    """

    def __init__(self, vault: Encryption, *, logs: bool = True) -> None:
        self.vault = vault
        self._logs = logs
        self._opened: dict[tuple[str, int, int], PrivateKey] = {}  # by column, customer and number
        self._checked: dict[int, tuple[list[object], KeySet]] = {}
        self._current: set[int] = set()  # customers whose authorities have service keys, which does not change

    async def newest(self, connection: Connection, customer: int) -> IssuingKeySigner | None:
        """The issuing key that signs until the caller's transaction ends.

        See `hold`. None if the customer has no authority. Raises `CannotDecrypt`.
        """
        id = await self._newest(connection, customer, ISSUING)
        return None if id is None else await self.of(connection, customer, id)

    async def newest_service(self, connection: Connection, customer: int) -> ServiceKeySigner | None:
        """The service key that signs, on the terms of `newest`."""
        id = await self._newest(connection, customer, SERVICE)
        return None if id is None else await self.service(connection, customer, id)

    async def _newest(self, connection: Connection, customer: int, kind: KeyKind) -> int | None:
        await self.upgrade(connection, customer)
        await hold(connection, customer)
        return await connection.fetchval(kind.newest, customer)

    async def upgrade(self, connection: Connection, customer: int) -> None:
        """Replace the keys of a version 1 authority, once.

        It happens in the caller's transaction.
        """
        if customer in self._current:
            return
        if await connection.fetchval(IS_OF_VERSION_1, customer):
            await upgrade(connection, self.vault, customer)
        elif await connection.fetchval(EXISTS, customer):
            if len(self._current) >= REMEMBERED:
                self._current = set()
            self._current.add(customer)

    async def service(self, statements: Statements, customer: int, id: int) -> ServiceKeySigner:
        """The service key with this number. Raises as `of` does."""
        return ServiceKeySigner(id, await self._key(statements, SERVICE, customer, id))

    async def of(self, statements: Statements, customer: int, id: int) -> IssuingKeySigner:
        """The issuing key with this number.

        Raises `CannotDecrypt`, and `Unavailable` if the key was just revoked.
        """
        return IssuingKeySigner(id, await self._key(statements, ISSUING, customer, id))

    async def _key(self, statements: Statements, kind: KeyKind, customer: int, id: int) -> PrivateKey:
        key = self._opened.get((kind.column, customer, id))
        if key is None:
            sealed = await statements.fetchval(kind.sealed, customer, id)
            if sealed is None:
                raise Unavailable(NOT_NOW)
            key = PrivateKey.from_text(await self.vault.open(sealed, kind.column, customer, id))
            if len(self._opened) >= REMEMBERED:
                self._opened = {}
            self._opened[kind.column, customer, id] = key
        return key

    async def key_set(self, statements: Statements, customer: int) -> KeySet | None:
        """The checked key set of a customer; None without an authority.

        Raises `CannotDecrypt`, `InconsistentKeys`.
        """
        authority = await statements.fetchrow(AUTHORITY, customer)
        return None if authority is None else await self.check(statements, customer, authority)

    async def check(self, statements: Statements, customer: int, authority: Row) -> KeySet:
        """The checked key set of a row with the columns of `AUTHORITY`.

        It is checked once, and again after one of the columns has changed. Raises `CannotDecrypt`, `InconsistentKeys`.
        """
        columns = [authority[name] for name in CHECKED]
        cached = self._checked.get(customer)
        if cached is not None and cached[0] == columns:
            return cached[1]
        sealed = await self.vault.open(authority["sealed_root"], ROOT_KEY, customer, customer)
        root = RootKey.from_text(sealed).public
        keys = [(await self.of(statements, customer, id)).key.public for id in authority["signers"]]
        services = [(await self.service(statements, customer, id)).key.public for id in authority["services"]]
        if (difference := inconsistency(authority, customer, root, keys, services)) is not None:
            raise InconsistentKeys(customer, difference, is_logged=self._logs)
        if len(self._checked) >= REMEMBERED:
            self._checked = {}
        key_set = KeySet(root, authority["key_set"], tuple(authority["roots"]))
        self._checked[customer] = columns, key_set
        return key_set


def inconsistency(
    authority: Row, customer: int, root: PublicKey, signer_keys: list[PublicKey], service_keys: list[PublicKey]
) -> str | None:
    """The first difference between an authority's row and its sealed keys.

    None if there is no difference.
    """
    if authority["root"] != load_authority(root):
        return "key_authority.public_key is not that of the sealed root"
    if authority["signer_keys"] != [load_authority(key) for key in signer_keys]:
        return "issuing_key.public_key is not that of the sealed key"
    if authority["service_keys"] != [load_authority(key) for key in service_keys]:
        return "service_key.public_key is not that of the sealed key"
    try:
        key_set = cose.read(authority["key_set"], KEY_SET)
    except MessageRefused:
        return "key_authority.key_set is no key set"
    if key_set.kid != root.kid or not verify(root, key_set.to_be_signed, key_set.signature):
        return "key_authority.key_set is not signed by the sealed root"
    if (key_set.claims["iss"], key_set.claims["sequence"]) != (issuer(customer), authority["sequence"]):
        return "key_authority.key_set is of another customer, or has another sequence"
    # The set lists the oldest key first
    if (key_set.claims["keys"], key_set.claims["service-keys"]) != (signer_keys[::-1], service_keys[::-1]):
        return "key_authority.key_set names other issuing or service keys"
    return _inconsistent_roots(authority["roots"], root)


def _inconsistent_roots(roots: list[bytes], root: PublicKey) -> str | None:
    """The fault of roots that do not lead to the sealed one.

    Boxes check the signers of new roots.
    """
    try:
        new = [cose.read(message, ROOT).claims["root"] for message in roots]
    except MessageRefused:
        return "new_root.message is no new root"
    return "new_root.message names another root than the sealed one" if new and new[-1] != root else None


def root_kids(root: bytes, new_roots: Iterable[bytes]) -> frozenset[bytes]:
    """The `kid` of each root that an authority has had.

    These are the present root and the signers of new roots.
    """
    return frozenset({public(root).kid, *(cose.read(message, ROOT).kid for message in new_roots)})


def issuer(customer: int) -> str:
    """The name of an authority in all its messages (docs/key-protocol.md, "Members": iss)."""
    return f"customer:{customer}"


def box_name(product: int, epoch: int) -> str:
    """The name of a box (docs/key-protocol.md, "Members": aud)."""
    return f"box:{product}:{epoch}"


def load_authority(key: PublicKey) -> bytes:
    """A public key as tables store it: x and y, 64 bytes."""
    return key.x + key.y


def public(stored: bytes) -> PublicKey:
    """The public key in a column of a table."""
    return PublicKey(stored[:32], stored[32:])


async def private_root(vault: Encryption, customer: int, authority: Row) -> PrivateKey:
    """The private root of a row with the columns of `AUTHORITY`.

    Raises `OfflineRoot`, `CannotDecrypt`.
    """
    root = RootKey.from_text(await vault.open(authority["sealed_root"], ROOT_KEY, customer, customer))
    if root.private is None:
        raise OfflineRoot
    return root.private


async def ensure(connection: Connection, vault: Encryption, customer: int) -> None:
    """Create the customer's authority, once, in the caller's transaction."""
    if await connection.fetchval(EXISTS, customer):
        return
    root, first, service = PrivateKey.generate(), PrivateKey.generate(), PrivateKey.generate()
    sealed = await vault.seal(connection, root.to_text(), ROOT_KEY, customer, customer)
    key_set = await sign_key_set(connection, customer, root, [first.public], [service.public])
    columns = sealed, load_authority(root.public), sequence_of(key_set, KEY_SET), key_set
    if await connection.fetchval(INSERT, customer, *columns):
        await _insert(connection, vault, customer, ISSUING, first)
        await _insert(connection, vault, customer, SERVICE, service)


async def upgrade(connection: Connection, vault: Encryption, customer: int) -> None:
    """Replace the keys of a version 1 authority, once.

    No box of that version is in use, so no signature of those keys has to stay valid.
    """
    await connection.execute(LOCK, customer)
    if await connection.fetchval(IS_OF_VERSION_1, customer):
        await rotate(connection, vault, customer, revoke=True)


async def rotate(connection: Connection, vault: Encryption, customer: int, *, revoke: bool) -> int | None:
    """Replace the signing issuing key and the signing service key.

    The replaced keys stay in the set, and their signatures stay valid. Older keys are revoked. With `revoke` no key
    stays, and each box gets another generation of its list. Returns the number of the new issuing key, or None if the
    customer has no authority. Raises:

    - `KeySetOverlap` while keys of the older of two issuing keys may open, unless `revoke`;
    - `InconsistentKeys`, unless `revoke`, which also repairs the columns;
    - `OfflineRoot`, `CannotDecrypt`.
    """
    await connection.execute(LOCK, customer)
    authority = await connection.fetchrow(AUTHORITY, customer)
    if authority is None:
        return None
    root = await private_root(vault, customer, authority)
    rotation = await plan_rotation(connection, vault, customer, authority, revoke=revoke or not authority["services"])
    key_set = await sign_key_set(connection, customer, root, rotation.keys, rotation.service_keys)
    return await install(connection, vault, customer, authority, rotation, root.public, key_set)


async def plan_rotation(
    connection: Connection, vault: Encryption, customer: int, authority: Row, *, revoke: bool
) -> KeyRotation:
    """The planned rotation of a locked row with the columns of `AUTHORITY`.

    Raises `KeySetOverlap`, `InconsistentKeys` and `CannotDecrypt` as `rotate` does.
    """
    signers = IssuingKeySigners(vault)
    good: list[int] = authority["signers"]
    if not revoke:
        await signers.check(connection, customer, authority)
        if len(good) > 1 and (until := await connection.fetchval(OLDER_OPENS, customer, good[0])) is not None:
            raise KeySetOverlap(until)
    stay: list[int] = [] if revoke else good[:1]
    services_stay: list[int] = [] if revoke else authority["services"][:1]
    key, service = PrivateKey.generate(), PrivateKey.generate()
    keys = [(await signers.of(connection, customer, id)).key.public for id in stay]
    service_keys = [(await signers.service(connection, customer, id)).key.public for id in services_stay]
    return KeyRotation(
        key, service, stay, services_stay, [*keys, key.public], [*service_keys, service.public], is_revoking=revoke
    )


async def install(
    connection: Connection,
    vault: Encryption,
    customer: int,
    authority: Row,
    rotation: KeyRotation,
    root: PublicKey,
    key_set: bytes,
) -> int:
    """Install the planned keys with the signed key set that names them.

    Returns the number of the issuing key.
    """
    id = await _insert(connection, vault, customer, ISSUING, rotation.key)
    service_id = await _insert(connection, vault, customer, SERVICE, rotation.service)
    await connection.execute(ISSUING.revoke, customer, [*rotation.stay, id])
    await connection.execute(SERVICE.revoke, customer, [*rotation.services_stay, service_id])
    if rotation.is_revoking:
        await _drop_foreign_roots(connection, customer, authority["roots"], root)
        await connection.execute(END_KEYS, customer, id)
        await connection.execute(BEGIN_GENERATIONS, customer, LONGEST_URI)
    if rotation.is_revoking or len(authority["signers"]) > 1:
        await connection.execute(END_LISTS, customer)
        await connection.execute(END_RECEIPTS, customer)
    await connection.execute(SET, customer, load_authority(root), sequence_of(key_set, KEY_SET), key_set)
    return id


async def hold(connection: Connection, customer: int) -> None:
    """Keep the issuing and service keys unchanged until the caller's transaction ends.

    So no key is revoked between the signature that the transaction makes and its commit. This lock comes before all
    others of the transaction.
    """
    await connection.execute(HOLD, customer)


async def lock(connection: Connection, customer: int) -> None:
    """Lock the customer's authority for the caller's transaction.

    A change that keeps parts of what it has read then loses no concurrent change.
    """
    await connection.execute(LOCK, customer)


async def lose_all(connection: Connection) -> int:
    """Delete every authority, because nothing decrypts their keys any more.

    Boxes must be enrolled again. Returns the number of authorities.
    """
    await connection.execute(FORGET_SECRETS)
    lost: int = await connection.fetchval(LOSE)
    return lost


async def _insert(connection: Connection, vault: Encryption, customer: int, kind: KeyKind, key: PrivateKey) -> int:
    id: int = await connection.fetchval(kind.next_id)
    sealed = await vault.seal(connection, key.to_text(), kind.column, customer, id)
    await connection.execute(kind.insert, customer, id, sealed, load_authority(key.public))
    return id


async def _drop_foreign_roots(connection: Connection, customer: int, roots: list[bytes], root: PublicKey) -> None:
    """Delete new roots that do not lead to the sealed root.

    Another program has written them.
    """
    kid, chain = root.kid, list[bytes]()
    for message in reversed(roots):
        try:
            new = cose.read(message, ROOT)
        except MessageRefused:
            continue
        if new.claims["root"].kid == kid:
            kid = new.kid
            chain.append(message)
    if len(chain) < len(roots):
        await connection.execute(DROP_ROOTS, customer, chain)


def named_keys(authority: Row) -> tuple[list[PublicKey], list[PublicKey]]:
    """The keys in a checked row of `AUTHORITY`, the oldest first.

    They are the issuing keys, and the service keys.
    """
    keys, service_keys = ([public(key) for key in authority[name][::-1]] for name in ("signer_keys", "service_keys"))
    return keys, service_keys


def sequence_of(data: bytes, message: Message) -> int:
    """The sequence of a signed key set or new root."""
    sequence: int = cose.read(data, message).claims["sequence"]
    return sequence


async def next_claims(connection: Connection, customer: int, **others: Any) -> dict[str, Any]:
    """The claims of the next message that the customer's root signs.

    `others` are added to the common claims.
    """
    sequence: int = await connection.fetchval(NEXT_SET)
    return {"iss": issuer(customer), "iat": int(now().timestamp()), "sequence": sequence} | others


def key_claims(keys: list[PublicKey], service_keys: list[PublicKey]) -> dict[str, list[PublicKey]]:
    """The claims of a key set with these keys, the oldest first."""
    return {"keys": keys, "service-keys": service_keys}


async def sign_key_set(
    connection: Connection, customer: int, root: PrivateKey, keys: list[PublicKey], service_keys: list[PublicKey]
) -> bytes:
    """Sign the next key set with these keys, the oldest first."""
    claims = await next_claims(connection, customer, **key_claims(keys, service_keys))
    return cose.sign(KEY_SET, root.public.kid, claims, root.sign)
