"""Signed messages: COSE_Sign1 (RFC 9052) with ES256, in one form per message.

Reading verifies no signature: the claims determine the key that must have signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from keyrack.offline_keys.cbor import CborError, Key, TaggedItem, Value, decode, encode
from keyrack.offline_keys.message_fields import ENTRY, Message
from keyrack.offline_keys.public_key import COORDINATE, ORDER
from keyrack.offline_keys.public_key import PublicKey as PublicKey  # re-exported for modules that read messages
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

ALG, KID, TYP = 1, 4, 16  # labels of RFC 9052, section 3.1, and RFC 9596
ES256 = -7
KID_BYTES = 8
SIGNATURE = 64  # bytes, r and s


class MessageRefused(Exception):
    """A refused message, with the code of the reason."""

    def __init__(self, code: BoxRefusalCode) -> None:
        super().__init__(code.text)
        self.code = code


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """A parsed message. Its claims have the names of `message_fields`."""

    message: Message
    kid: bytes  # 8 bytes
    claims: dict[str, Any]
    to_be_signed: bytes
    signature: bytes  # 64 bytes
    raw: bytes


def read(data: bytes, *messages: Message) -> SignedMessage:
    """Read one of these messages. Raises `MessageRefused` (docs/key-protocol.md, "Reading a signed message")."""
    if len(data) > max(message.limit for message in messages):
        raise MessageRefused(BoxRefusalCode.TOO_LONG)
    protected, payload, signature = _parts(_item(data, tagged=True))
    kid, typ = _header(_item(protected))
    message = next((message for message in messages if message.typ == typ), None)
    if message is None:
        raise MessageRefused(BoxRefusalCode.TYP)
    item = _item(payload)
    try:
        claims = message.read(item)
    except CborError:
        raise MessageRefused(BoxRefusalCode.CLAIMS) from None
    return SignedMessage(message, kid, claims, to_be_signed(protected, payload), signature, data)


def read_entry(data: bytes) -> SignedMessage:
    """The entry of a box's log, with a low s. Raises `MessageRefused`.

    A carrier of an entry can turn its s into n - s, which is equally valid. With the low s both are one entry, the one
    whose SHA-256 the box knows. An entry whose `first` is higher than its number would give up entries that the box has
    yet to write.
    """
    entry = read(data, ENTRY)
    if entry.claims["first"] > entry.claims["number"]:
        raise MessageRefused(BoxRefusalCode.CLAIMS)
    signature = with_low_s(entry.signature)
    return replace(entry, signature=signature, raw=data[:-SIGNATURE] + signature)  # the signature is the last element


def with_low_s(signature: bytes) -> bytes:
    """The signature with the lower of s and n - s.

    An s outside the range of scalars does not change.
    """
    s = int.from_bytes(signature[COORDINATE:], "big")
    if not ORDER < 2 * s < 2 * ORDER:
        return signature
    return signature[:COORDINATE] + (ORDER - s).to_bytes(COORDINATE, "big")


def sign(message: Message, kid: bytes, claims: Mapping[str, Any], signer: Callable[[bytes], bytes]) -> bytes:
    """The signed message with these claims. `signer` returns 64 bytes.

    Raises `ValueError` if the claims are not the message's, or the message is too long.
    """
    header: dict[Key, Value] = {ALG: ES256, KID: kid, TYP: message.typ}
    protected, payload = encode(header), encode(message.write(claims))
    signature = signer(to_be_signed(protected, payload))
    data = encode(TaggedItem([protected, {}, payload, signature]))
    if len(data) > message.limit:
        raise ValueError(f"a message of type {message.typ} has at most {message.limit} bytes, not {len(data)}")
    return data


def to_be_signed(protected: bytes, payload: bytes) -> bytes:
    """The Sig_structure of RFC 9052, section 4.4."""
    return encode(["Signature1", protected, b"", payload])


def _item(data: bytes, *, tagged: bool = False) -> Value:
    try:
        return decode(data, tagged=tagged)
    except CborError:
        raise MessageRefused(BoxRefusalCode.ENCODING) from None


def _parts(item: Value) -> tuple[bytes, bytes, bytes]:
    """Protected header, payload and signature."""
    match item:
        case TaggedItem([bytes(protected), unprotected, bytes(payload), bytes(signature)]) if (
            unprotected == {} and len(signature) == SIGNATURE
        ):
            return protected, payload, signature
        case _:
            raise MessageRefused(BoxRefusalCode.STRUCTURE)


def _header(item: Value) -> tuple[bytes, str]:
    """The `kid` of the signer, and the type of the message."""
    if not isinstance(item, dict) or set(item) != {ALG, KID, TYP}:
        raise MessageRefused(BoxRefusalCode.HEADER)
    if item[ALG] != ES256:
        raise MessageRefused(BoxRefusalCode.ALGORITHM)
    kid, typ = item[KID], item[TYP]
    if not isinstance(kid, bytes) or len(kid) != KID_BYTES or not isinstance(typ, str):
        raise MessageRefused(BoxRefusalCode.HEADER)
    return kid, typ
