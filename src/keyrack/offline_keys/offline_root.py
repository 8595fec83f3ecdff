"""Requests to an offline root: unsigned messages and signed answers (docs/secrets.md).

The server generates the new keys, and seals them with the request. They sign nothing until the root's signature
arrives. The other machine needs the root's private key and this module, but no database.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from keyrack.core.base64url import base64url, octets
from keyrack.db.connection import Connection, Row
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import ROOT_KEY, ROOT_REQUEST
from keyrack.offline_keys import cose
from keyrack.offline_keys.cbor import decode, encode
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.issuing_keys import (
    AUTHORITY,
    IssuingKeySigners,
    KeyRotation,
    RootKey,
    install,
    key_claims,
    load_authority,
    named_keys,
    next_claims,
    plan_rotation,
    public,
    upgrade,
)
from keyrack.offline_keys.message_fields import KEY_SET, ROOT, Message
from keyrack.offline_keys.p256 import PrivateKey, verify
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.root_keys import install_root, sign_root

PUT: LiteralString = """
insert into key_set_request (customer_id, request) values ($1, $2)
on conflict (customer_id) do update set request = excluded.request, requested_at = clock_timestamp()
"""
GET: LiteralString = "select request from key_set_request where customer_id = $1"
DELETE: LiteralString = "delete from key_set_request where customer_id = $1"

MESSAGES = {message.name: message for message in (KEY_SET, ROOT)}
FOREIGN_ROOT = (
    "The request names the new root {root}, whose private key is not on this machine. If you did not create that root,"
    " an attacker controls the server."
)


class OnlineRoot(Exception):
    """The server itself has the private root."""


class NoRequest(Exception):
    """No request waits for a signature of the root."""


class OutdatedRequest(Exception):
    """The keys of the authority have changed since the request."""


class InvalidRequest(Exception):
    """The file does not answer the request, or lacks the root's signature."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A message that a root has to sign."""

    message: Message
    signer: PublicKey
    payload: bytes  # CBOR

    def to_json(self) -> dict[str, str]:
        return {
            "message": self.message.name,
            "signer": base64url(self.signer.encoded),
            "payload": base64url(self.payload),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Unsigned:
        """The message in a request. Raises `InvalidRequest`."""
        try:
            read = cls(MESSAGES[value["message"]], read_public_key(value["signer"]), octets(value["payload"]))
            read.message.read(decode(read.payload))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest("The file is not a request of the server.") from error
        return read

    @property
    def claims(self) -> dict[str, Any]:
        return self.message.read(decode(self.payload))

    def find(self, signed: Iterable[bytes]) -> bytes:
        """The validly signed form of this message. Raises `InvalidRequest`."""
        for data in signed:
            try:
                read = cose.read(data, self.message)
            except MessageRefused:
                continue
            is_signed = read.kid == self.signer.kid and verify(self.signer, read.to_be_signed, read.signature)
            if read.claims == self.claims and is_signed:
                return data
        raise InvalidRequest(f"The file lacks the requested {self.message.name}, or the root has not signed it.")


def read_public_key(text: str) -> PublicKey:
    """The key of a COSE_Key in base64url. Raises `ValueError`."""
    return PublicKey.from_map(decode(octets(text)))


def sign(wanted: Sequence[Unsigned], roots: Sequence[PrivateKey]) -> list[bytes]:
    """Sign what the server has requested, on the machine of the root.

    A new root is signed only if its private key is here as well: an attacker on the server may request another root.
    Raises `InvalidRequest` if a key is missing.
    """
    keys = {root.public: root for root in roots}
    if missing := [each for each in wanted if each.signer not in keys]:
        raise InvalidRequest(
            f"The root {missing[0].signer.thumbprint.hex()} must sign this, but its private key is not on this machine."
        )
    new_roots = [each.claims["root"] for each in wanted if each.message is ROOT]
    if foreign := [root for root in new_roots if root not in keys]:
        raise InvalidRequest(FOREIGN_ROOT.format(root=foreign[0].thumbprint.hex()))
    return [cose.sign(each.message, each.signer.kid, each.claims, keys[each.signer].sign) for each in wanted]


async def request(
    connection: Connection, vault: Encryption, customer: int, *, revoke: bool = False, new_root: PublicKey | None = None
) -> list[Unsigned] | None:
    """Request the root's signature of a key set with new keys.

    With `new_root`, the key set has the same keys, under that offline root. Returns the messages to sign, or None if
    the customer has no authority. A later request replaces this one. Raises `OnlineRoot`, and as `issuing_keys.rotate`
    does.
    """
    await upgrade(connection, vault, customer)
    authority = await connection.fetchrow(AUTHORITY, customer)
    if authority is None:
        return None
    root = RootKey.from_text(await vault.open(authority["sealed_root"], ROOT_KEY, customer, customer))
    if new_root is None:
        if root.private is not None:
            raise OnlineRoot
        rotation = await plan_rotation(connection, vault, customer, authority, revoke=revoke)
        wanted = [await _key_set(connection, customer, root.public, rotation.keys, rotation.service_keys)]
        kept: dict[str, Any] = {"rotation": _rotation_to_json(rotation)}
    else:
        await IssuingKeySigners(vault).check(connection, customer, authority)
        kept, wanted = {}, list[Unsigned]()
        if root.private is not None:
            kept["newRoot"] = base64url(await sign_root(connection, customer, root.private, new_root))
        else:
            wanted.append(await _new_root(connection, customer, root.public, new_root))
        wanted.append(await _key_set(connection, customer, new_root, *named_keys(authority)))
    kept |= {"wanted": [each.to_json() for each in wanted], "state": _state(authority)}
    sealed = await vault.seal(connection, json.dumps(kept), ROOT_REQUEST, customer, customer)
    await connection.execute(PUT, customer, sealed)
    return wanted


async def accept(connection: Connection, vault: Encryption, customer: int, signed: Sequence[bytes]) -> PublicKey:
    """Install the keys that the root has signed. Returns the root.

    Raises `NoRequest`, `OutdatedRequest`, `InvalidRequest`, `CannotDecrypt`.
    """
    await upgrade(connection, vault, customer)
    authority = await connection.fetchrow(AUTHORITY, customer)
    sealed = await connection.fetchval(GET, customer)
    if authority is None or sealed is None:
        raise NoRequest
    kept: dict[str, Any] = json.loads(await vault.open(sealed, ROOT_REQUEST, customer, customer))
    if kept["state"] != _state(authority):
        raise OutdatedRequest
    wanted = [Unsigned.from_json(each) for each in kept["wanted"]]
    messages = {each.message.name: each.find(signed) for each in wanted}
    key_set, root = messages[KEY_SET.name], wanted[-1].signer
    if "rotation" in kept:
        await install(connection, vault, customer, authority, _rotation(kept["rotation"]), root, key_set)
    else:
        new_root = octets(kept["newRoot"]) if "newRoot" in kept else messages[ROOT.name]
        await install_root(connection, vault, customer, RootKey(root, None), new_root, key_set)
    await connection.execute(DELETE, customer)
    return root


async def _key_set(
    connection: Connection, customer: int, root: PublicKey, keys: list[PublicKey], service_keys: list[PublicKey]
) -> Unsigned:
    claims = await next_claims(connection, customer, **key_claims(keys, service_keys))
    return Unsigned(KEY_SET, root, encode(KEY_SET.write(claims)))


async def _new_root(connection: Connection, customer: int, root: PublicKey, new: PublicKey) -> Unsigned:
    claims = await next_claims(connection, customer, root=new)
    return Unsigned(ROOT, root, encode(ROOT.write(claims)))


def _state(authority: Row) -> list[Any]:
    """The state for which a request was made: root and valid keys."""
    return [base64.b64encode(authority["root"]).decode(), list(authority["signers"]), list(authority["services"])]


def _rotation_to_json(rotation: KeyRotation) -> dict[str, Any]:
    return {
        "key": rotation.key.to_text(),
        "service": rotation.service.to_text(),
        "stay": rotation.stay,
        "servicesStay": rotation.services_stay,
        "keys": [base64.b64encode(load_authority(key)).decode() for key in rotation.keys],
        "serviceKeys": [base64.b64encode(load_authority(key)).decode() for key in rotation.service_keys],
        "revoke": rotation.is_revoking,
    }


def _rotation(value: Mapping[str, Any]) -> KeyRotation:
    return KeyRotation(
        PrivateKey.from_text(value["key"]),
        PrivateKey.from_text(value["service"]),
        value["stay"],
        value["servicesStay"],
        [public(base64.b64decode(key)) for key in value["keys"]],
        [public(base64.b64decode(key)) for key in value["serviceKeys"]],
        is_revoking=value["revoke"],
    )
