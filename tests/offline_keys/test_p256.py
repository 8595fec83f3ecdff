"""Signing keys: RFC 6979, texts, and Wycheproof's signatures if they are available."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from keyrack.offline_keys import cose, p256
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.public_key import ORDER, PublicKey
from tests.offline_keys.fixed_keys import high, public, signer

P = 2**256 - 2**224 + 2**192 + 2**96 - 1  # the field, and the curve's b
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
NAME = "ecdsa_secp256r1_sha256_p1363_test.json"
GO = "github.com/c2sp/wycheproof"  # the Go module with the file


def wycheproof() -> Path | None:
    """The folder in `KEYRACK_WYCHEPROOF`, or the module in Go's cache."""
    cache = Path(os.environ.get("GOMODCACHE", Path.home() / "go/pkg/mod"))
    folders = [Path(each) for each in [os.environ.get("KEYRACK_WYCHEPROOF", "")] if each]
    folders += sorted(cache.glob(f"{GO}@*/testvectors_v1"))
    return next((folder / NAME for folder in folders if (folder / NAME).exists()), None)


SCALAR = "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"
SIGNED = {
    b"sample": "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
    "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    b"test": "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367"
    "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
}


@pytest.mark.parametrize("message", SIGNED)
def test_signatures_are_those_of_rfc_6979(message: bytes) -> None:
    """The RFC's appendix A.2.5, with SHA-256."""
    key = PrivateKey.from_text(base64.b64encode(bytes.fromhex(SCALAR)).decode())
    assert key.sign(message).hex() == SIGNED[message]
    assert p256.verify(key.public, message, key.sign(message))


def test_a_key_is_written_and_read() -> None:
    key = PrivateKey.generate()
    read = PrivateKey.from_text(key.to_text())
    assert read.public == key.public
    assert read.sign(b"message") == key.sign(b"message")
    assert p256.verify(key.public, b"message", read.sign(b"message"))
    for text in ("", "AA==", "no key", key.to_text()[:-4]):
        with pytest.raises(ValueError):
            PrivateKey.from_text(text)


def test_a_high_s_is_equally_valid() -> None:
    for number in range(8):
        message = f"message {number}".encode()
        signature = signer("box").sign(message)
        low = cose.with_low_s(signature)
        assert {low, high(signature)} > {signature}
        assert cose.with_low_s(high(signature)) == low == cose.with_low_s(low) != high(signature)
        assert p256.verify(public("box"), message, low)
        assert p256.verify(public("box"), message, high(signature))


def test_a_low_s_is_at_most_half_of_the_order() -> None:
    """A number that is no scalar has no other form."""
    half = ORDER // 2
    lowered = {0: 0, 1: 1, half: half, half + 1: half, ORDER - 1: 1, ORDER: ORDER, 2**256 - 1: 2**256 - 1}
    for s, low in lowered.items():
        r = bytes(range(32))
        assert cose.with_low_s(r + s.to_bytes(32, "big")) == r + low.to_bytes(32, "big")


def test_an_invalid_signature_is_refused() -> None:
    signature = signer("box").sign(b"message")
    r, s = signature[:32], signature[32:]
    order, zero = ORDER.to_bytes(32, "big"), bytes(32)
    for other in (
        b"",
        signature[:-1],
        signature + b"\0",
        zero + s,
        r + zero,
        order + s,
        r + order,
        b"\xff" * 64,
        s + r,
    ):
        assert not p256.verify(public("box"), b"message", other)
    assert not p256.verify(public("box"), b"another", signature)
    assert not p256.verify(public("phone-1"), b"message", signature)


def test_a_key_that_is_no_point_has_signed_nothing() -> None:
    """Points off the curve, the point at infinity, and coordinates outside of the field."""
    key, signature = public("box"), signer("box").sign(b"message")
    flipped = key.y[:-1] + bytes([key.y[-1] ^ 1])
    beyond = b"\xff" * 32
    x = next(x for x in range(5, 100) if pow(x**3 - 3 * x + B, (P - 1) // 2, P) == 1)
    y = pow(x**3 - 3 * x + B, (P + 1) // 4, P)
    for other in (
        PublicKey(key.x, flipped),
        PublicKey(key.y, key.x),
        PublicKey(bytes(32), bytes(32)),
        PublicKey(beyond, key.y),
        PublicKey(key.x, beyond),
        PublicKey((x + P).to_bytes(32, "big"), y.to_bytes(32, "big")),
    ):
        assert not p256.verify(other, b"message", signature)


@pytest.mark.skipif(wycheproof() is None, reason=f"neither KEYRACK_WYCHEPROOF nor Go's cache has {NAME} ({GO})")
def test_wycheproof() -> None:
    path = wycheproof()
    assert path is not None
    cases = 0
    for group in json.loads(path.read_text())["testGroups"]:
        whole = bytes.fromhex(group["publicKey"]["uncompressed"])
        key = PublicKey(whole[1:33], whole[33:])
        for test in group["tests"]:
            is_good = p256.verify(key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
            assert is_good is (test["result"] == "valid"), test["comment"]
            cases += 1
    assert cases > 250
