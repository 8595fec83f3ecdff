"""Signed messages: round trips, names of keys, and refused input."""

from __future__ import annotations

import hashlib
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import cose, p256
from keyrack.offline_keys.cbor import GREATEST, CborError, decode, encode
from keyrack.offline_keys.message_fields import MEMBERS, Message, Status
from keyrack.offline_keys.public_key import CURVE_B, MODULUS, PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import NAMES, public, signer
from tests.offline_keys.vectors.message_recipes import MESSAGES

TEXT = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
SIGNER = "issuing-1"


def text(longest: int) -> st.SearchStrategy[str]:
    return st.text(TEXT, min_size=1, max_size=longest)


def octets(length: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=length, max_size=length)


TIME, COUNT = st.integers(1, GREATEST), st.integers(0, GREATEST)
PUBLIC = st.sampled_from([public(name) for name in NAMES])
CLAIMS: dict[str, st.SearchStrategy[Any]] = {
    "iss": text(40),
    "sub": text(128),
    "aud": text(40),
    "exp": TIME,
    "nbf": TIME,
    "iat": TIME,
    "cti": octets(16),
    "cnf": PUBLIC,
    "nonce": octets(16),
    "status_list": st.binary(max_size=300),
    "ttl": TIME,
    "status": st.builds(Status, COUNT, text(128)),
    "assignment": st.integers(1, (1 << 31) - 1),
    "rights": st.sets(st.integers(1, 3), min_size=1).map(sorted),
    "limit": st.integers(1, (1 << 31) - 1),
    "command": st.integers(1, 2),
    "counter": COUNT,
    "key": octets(32),
    "challenge": octets(32),
    "sequence": TIME,
    "keys": st.lists(PUBLIC, min_size=1, max_size=2),
    "service-keys": st.lists(PUBLIC, min_size=1, max_size=2),
    "generation": TIME,
    "upto": st.tuples(TIME, octets(32)),
    "root": PUBLIC,
    "box": octets(32),
    "number": TIME,
    "previous": octets(32),
    "first": TIME,
    "event": st.integers(1, 6),
    "code": st.integers(0, 36),
    "certain": st.integers(0, 1),
    "device": octets(32) | st.just(b""),
    "held": st.tuples(TIME, COUNT, COUNT),
    "refused": st.tuples(COUNT, st.integers(0, 36)),
    "advertising": octets(16),
    "list": octets(32),
    "keyset": octets(32),
    "skipped": COUNT,
    "root-kid": octets(8),
}


def claims_of(message: Message) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({member.name: CLAIMS[member.name] for member in message.members})


SAID = st.sampled_from(list(MESSAGES.values())).flatmap(lambda each: st.tuples(st.just(each), claims_of(each)))


def test_each_field_has_example_values() -> None:
    assert set(CLAIMS) == set(MEMBERS)
    assert len({member.key for member in MEMBERS.values()}) == len(MEMBERS)


@given(SAID)
def test_a_signed_message_is_read(said: tuple[Message, dict[str, Any]]) -> None:
    message, claims = said
    try:
        data = cose.sign(message, public(SIGNER).kid, claims, lambda _: bytes(64))
    except ValueError:  # too long
        assert len(claims.get("sub", "")) > 40 or len(claims.get("status_list", b"")) > 200 or message.limit == 640
        return
    read = cose.read(data, *MESSAGES.values())
    assert (read.message, read.claims, read.kid, read.raw) == (message, claims, public(SIGNER).kid, data)


@given(SAID, st.data())
def test_a_message_with_a_field_more_or_less_is_refused(
    said: tuple[Message, dict[str, Any]], data: st.DataObject
) -> None:
    message, claims = said
    name = data.draw(st.sampled_from(sorted(claims)))
    less = {each: value for each, value in claims.items() if each != name}
    with pytest.raises(CborError):
        message.write(less)
    payload = message.write(claims)
    assert isinstance(payload, dict)
    for key in data.draw(st.sampled_from((0, 99, 65532, -65536, -65565, -66047, -66304, "iss"))), MEMBERS[name].key:
        with pytest.raises(CborError):
            message.read({**payload, key: data.draw(st.sampled_from((-1, "", [], {}, [[]])))})


@given(SAID, st.dictionaries(st.integers(-66303, -66048), st.sampled_from((0, -7, b"", "a", [], {"a": [1]}))))
def test_skippable_fields_change_nothing(said: tuple[Message, dict[str, Any]], more: dict[Any, Any]) -> None:
    message, claims = said
    payload = message.write(claims)
    assert isinstance(payload, dict)
    assert message.read(payload | more) == claims


def test_a_signature_is_of_the_sig_structure() -> None:
    claims = {"sub": "u-1", "cnf": public("phone-1"), "nonce": bytes(16)}
    phone = signer("phone-1")
    data = cose.sign(MESSAGES["registration"], phone.public.kid, claims, phone.sign)
    protected, _, payload, signature = cbor2.loads(data).value
    structure = cbor2.dumps(["Signature1", protected, b"", payload])
    assert p256.verify(phone.public, structure, signature)
    assert cbor2.loads(protected) == {
        1: -7,
        4: phone.public.kid,
        16: "application/vnd.keyrack.registration-2+cwt",
    }
    assert cose.read(data, MESSAGES["registration"]).to_be_signed == structure


def test_the_size_limit_holds_for_signing_and_reading() -> None:
    message = MESSAGES["statuslist"]
    claims = {
        "iss": "i", "sub": "s", "aud": "a", "exp": 1, "iat": 1, "status_list": bytes(2000), "ttl": 1, "generation": 1
    }  # fmt: skip
    with pytest.raises(ValueError, match="at most 768 bytes"):
        cose.sign(message, bytes(8), claims, lambda _: bytes(64))
    with pytest.raises(cose.MessageRefused) as refused:
        cose.read(bytes(769), message)
    assert refused.value.code is BoxRefusalCode.TOO_LONG


def test_a_thumbprint_is_that_of_rfc_9679() -> None:
    """The key of the RFC's section 5.6, with its thumbprint."""
    x = bytes.fromhex("65eda5a12577c2bae829437fe338701a10aaa375e1bb5b5de108de439c08551d")
    y = bytes.fromhex("1e52ed75701163f7f9e40ddf9f341b3dc9ba860af7e0ca7ca7e9eecd0084d19c")
    key = PublicKey(x, y)
    assert key.thumbprint.hex() == "496bd8afadf307e5b08c64b0421bf9dc01528a344a43bda88fadd1669da253ec"
    assert key.kid == key.thumbprint[:8]
    assert key.encoded == cbor2.dumps({1: 2, -1: 1, -2: x, -3: y})
    assert hashlib.sha256(key.encoded).digest() == key.thumbprint


def on_curve(x: bytes, y: bytes) -> bool:
    try:
        p256.ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), p256.CURVE).public_key()
    except ValueError:
        return False
    return True


@given(st.sampled_from(NAMES), st.integers(0, 511), st.booleans())
def test_a_public_key_is_a_point_of_the_curve(name: str, bit: int, negative: bool) -> None:
    """Another library decides. A coordinate is less than p, and the other root is a point, too."""
    key = public(name)
    y = (MODULUS - int.from_bytes(key.y, "big")).to_bytes(32, "big") if negative else key.y
    assert PublicKey(key.x, y).is_point
    point = bytearray(key.x + y)
    point[bit // 8] ^= 1 << bit % 8
    x, y = bytes(point[:32]), bytes(point[32:])
    assert PublicKey(x, y).is_point is on_curve(x, y)


def test_coordinates_are_less_than_p() -> None:
    """The least x of a point plus p fits into 32 bytes as well."""
    x = next(x for x in range(100) if is_square((x**3 - 3 * x + CURVE_B) % MODULUS))
    y = pow(x**3 - 3 * x + CURVE_B, (MODULUS + 1) // 4, MODULUS).to_bytes(32, "big")
    assert PublicKey(x.to_bytes(32, "big"), y).is_point
    assert not PublicKey((x + MODULUS).to_bytes(32, "big"), y).is_point


def is_square(number: int) -> bool:
    return pow(number, (MODULUS - 1) // 2, MODULUS) in (0, 1)


LIKE_A_KEY = st.fixed_dictionaries(
    {1: st.sampled_from((2, 1, b"")), -1: st.sampled_from((1, 2)), -2: octets(32), -3: octets(32) | octets(31)},
    optional={2: st.just(b"")},
)


@given(LIKE_A_KEY | PUBLIC.map(lambda key: key.map))
def test_a_public_key_has_one_form(value: dict[Any, Any]) -> None:
    is_one = (
        set(value) == {1, -1, -2, -3}
        and (value[1], value[-1]) == (2, 1)
        and all(isinstance(value[each], bytes) and len(value[each]) == 32 for each in (-2, -3))
        and on_curve(value[-2], value[-3])
    )
    if is_one:
        assert PublicKey.from_map(value).map == value
    else:
        with pytest.raises(CborError):
            PublicKey.from_map(value)


@given(st.binary(max_size=200))
def test_every_invalid_input_is_refused_with_a_code(data: bytes) -> None:
    with pytest.raises(cose.MessageRefused):
        cose.read(data, *MESSAGES.values())


@given(SAID, st.data())
def test_a_changed_byte_is_refused_or_another_message(
    said: tuple[Message, dict[str, Any]], data: st.DataObject
) -> None:
    message, claims = said
    protected = encode({1: -7, 4: bytes(8), 16: message.typ})
    whole = b"\xd2" + encode([protected, {}, encode(message.write(claims)), bytes(64)])
    place = data.draw(st.integers(0, len(whole) - 1))
    other = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    try:
        read = cose.read(other, *MESSAGES.values())
    except cose.MessageRefused:
        return
    assert (read.kid, read.claims, read.signature) != (bytes(8), claims, bytes(64))
    assert decode(encode(read.message.write(read.claims))) == read.message.write(read.claims)
