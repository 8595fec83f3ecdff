"""The structs of reference/box, filled from states of the box in Python."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keyrack.offline_keys.box.state import (
    Authority,
    BoxLogState,
    BoxMemory,
    LinkState,
    PersistentState,
    PhoneBuckets,
    StatusList,
    TokenBucket,
    VolatileState,
)
from keyrack.offline_keys.box.verification_budget import (
    COMMON,
    COMMON_PERIOD,
    LINK,
    LINK_PERIOD,
    PHONE,
    PHONE_PERIOD,
)
from keyrack.offline_keys.cbor import GREATEST
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

PLACES, ENTRY, GOOD_KEYS, PHONES = 1025, 500, 16, 64  # `PLACES` are those of the store
Byte, Uint, Flag = ctypes.c_uint8, ctypes.c_uint64, ctypes.c_bool
Bytes32 = Byte * 32


class Text(ctypes.Structure):
    _fields_ = [("len", Byte), ("at", Byte * 40)]


class Key(ctypes.Structure):
    _fields_ = [("point", Byte * 64), ("thumbprint", Bytes32)]


class List(ctypes.Structure):
    _fields_ = [
        ("generation", Uint), ("iat", Uint), ("signer", Byte * 8), ("uri_len", Byte), ("uri", Byte * 128),
        ("bits", Byte * 256),
    ]  # fmt: skip


class Phone(ctypes.Structure):
    _fields_ = [("thumbprint", Bytes32), ("counter", Uint)]


class KeptInC(ctypes.Structure):
    _fields_ = [
        ("self", Key), ("secret", Bytes32), ("boot", Uint), ("provisioned", Flag), ("authority", Text), ("name", Text),
        ("root", Key), ("issuing", Key * 2), ("issuing_count", Byte), ("service", Key * 2), ("service_count", Byte),
        ("sequence", Uint), ("advertising", Byte * 16), ("lists", List * 2), ("floor", Uint), ("certain", Flag),
        ("ahead", Uint), ("phones", Phone * PHONES), ("phone_count", Byte), ("first", Uint), ("next", Uint),
        ("newest", Bytes32),
    ]  # fmt: skip


class LinkInC(ctypes.Structure):
    _fields_ = [
        ("connection", Uint), ("tokens", Byte), ("since", Uint), ("proven", Flag), ("proven_at", Uint),
        ("has_nonce", Flag), ("made", Uint), ("nonce", Byte * 16), ("challenge", Bytes32),
    ]  # fmt: skip


class Spent(ctypes.Structure):
    _fields_ = [("remembered_key", Byte), ("other_key", Byte)]


class BoxInC(ctypes.Structure):
    _fields_ = [
        ("port", ctypes.c_void_p), ("store", ctypes.c_void_p), ("kept", KeptInC), ("damaged", Flag), ("changed", Flag),
        ("tick", Uint), ("time", Uint), ("tokens", Byte), ("spent", Spent * PHONES), ("challenges", Uint),
        ("connections", Uint), ("links", LinkInC * 3), ("good", Bytes32 * GOOD_KEYS), ("good_count", Byte),
        ("refused_count", Uint), ("refused_code", Byte), ("skipped_count", Uint),
    ]  # fmt: skip


class Test(ctypes.Structure):
    """`struct kr_test` of reference/box/tests/bridge.c."""

    _fields_ = [
        ("box", BoxInC), ("port", ctypes.c_void_p * 6), ("store", ctypes.c_void_p * 3),
        ("private_key", Bytes32), ("random_source", ctypes.c_void_p * 2), ("random", Bytes32),
        ("lens", ctypes.c_uint32 * PLACES), ("entries", (Byte * ENTRY) * PLACES),
    ]  # fmt: skip


def at(state: BoxMemory, tick: int) -> BoxMemory:
    """The same state, with buckets and clock advanced to this tick."""
    running = state.running
    return BoxMemory(
        state.kept,
        replace(
            running,
            booted=min(running.booted, GREATEST - tick),  # the clock stops there
            bucket=_counted(running.bucket, tick, COMMON, COMMON_PERIOD),
            phone_buckets={
                phone: PhoneBuckets(
                    _counted(both.remembered_key, tick, PHONE, PHONE_PERIOD),
                    _counted(both.other_key, tick, PHONE, PHONE_PERIOD),
                )
                for phone, both in running.phone_buckets.items()
            },
            links=tuple(
                replace(link, bucket=_counted(link.bucket, tick, LINK, LINK_PERIOD)) if link.connection else link
                for link in running.links
            ),
        ),
    )


def _counted(bucket: TokenBucket, tick: int, most: int, period: int) -> TokenBucket:
    periods = (tick - bucket.since) // period
    return TokenBucket(min(most, bucket.tokens + periods), bucket.since + periods * period)


def put_entry(test: Test, number: int, entry: bytes) -> None:
    test.lens[number % PLACES] = len(entry)
    _put(test.entries[number % PLACES], entry)


def entry(test: Test, number: int) -> bytes:
    return bytes(test.entries[number % PLACES][: test.lens[number % PLACES]])


def put(box: BoxInC, state: BoxMemory, tick: int) -> None:
    """Fill the struct, which is all zeros, with this state at this tick."""
    kept, running = state.kept, at(state, tick).running
    _put_kept(box.kept, kept)
    box.tick, box.time, box.tokens = tick, running.booted + tick, running.bucket.tokens
    box.challenges, box.connections = running.challenges, running.connections
    for place, (phone, _) in enumerate(kept.phones):
        both, spent = running.phone_buckets[phone], box.spent[place]
        spent.remembered_key, spent.other_key = PHONE - both.remembered_key.tokens, PHONE - both.other_key.tokens
    for link, each in zip(box.links, running.links, strict=True):
        link.connection, link.tokens, link.since = each.connection, each.bucket.tokens, each.bucket.since
        link.has_nonce, link.made = bool(each.nonce), each.made
        link.proven, link.proven_at = each.proven_at is not None, each.proven_at or 0
        _put(link.nonce, each.nonce)
        _put(link.challenge, each.challenge)
    box.good_count = len(running.good)
    for place, digest in zip(box.good, running.good, strict=False):
        _put(place, digest)
    box.refused_count, box.refused_code = running.refused[0], int(running.refused[1])
    box.skipped_count = running.skipped


def state(box: BoxInC, log: BoxLogState) -> BoxMemory:
    """The state in the struct, with this log."""
    return BoxMemory(_kept(box.kept, log), _running(box))


def _put(place: Any, value: bytes) -> None:
    ctypes.memmove(place, value, len(value))


def _put_key(place: Any, key: PublicKey) -> None:
    _put(place.point, key.x + key.y)
    _put(place.thumbprint, key.thumbprint)


def _put_text(place: Any, text: str) -> None:
    place.len = len(text)
    _put(place.at, text.encode())


def _put_kept(place: Any, kept: PersistentState) -> None:
    _put_key(place.self, kept.key)
    _put(place.secret, kept.secret)
    place.boot, place.floor, place.certain, place.ahead = kept.boot, kept.floor, kept.is_certain, kept.ahead
    place.first, place.next, place.phone_count = kept.log.first, kept.log.next, len(kept.phones)
    _put(place.newest, kept.log.newest)
    for phone, (thumbprint, counter) in zip(place.phones, kept.phones, strict=False):
        _put(phone.thumbprint, thumbprint)
        phone.counter = counter
    if kept.authority is not None:
        _put_authority(place, kept.authority)


def _put_authority(place: Any, authority: Authority) -> None:
    place.provisioned = True
    _put_key(place.root, authority.root)
    _put_text(place.authority, authority.iss)
    _put_text(place.name, authority.name)
    place.sequence, place.issuing_count = authority.sequence, len(authority.keys)
    place.service_count = len(authority.service_keys)
    _put(place.advertising, authority.advertising)
    for issuing, key in zip(place.issuing, authority.keys, strict=False):
        _put_key(issuing, key)
    for service, key in zip(place.service, authority.service_keys, strict=False):
        _put_key(service, key)
    for held, each in zip(place.lists, authority.lists, strict=False):
        held.generation, held.iat, held.uri_len = each.generation, each.iat, len(each.uri)
        _put(held.signer, each.signer)
        _put(held.uri, each.uri.encode())
        _put(held.bits, each.bits)


def _key(place: Any) -> PublicKey:
    return _known(bytes(place.point), bytes(place.thumbprint))


@functools.lru_cache
def _known(point: bytes, thumbprint: bytes) -> PublicKey:
    key = PublicKey(point[:32], point[32:])
    assert key.thumbprint == thumbprint
    return key


def _text(place: Any) -> str:
    return bytes(place.at[: place.len]).decode()


def _list(place: Any) -> StatusList:
    uri = bytes(place.uri[: place.uri_len]).decode()
    return StatusList(uri, place.generation, place.iat, bytes(place.bits), bytes(place.signer))


def _authority(kept: Any) -> Authority:
    return Authority(
        root=_key(kept.root),
        iss=_text(kept.authority),
        name=_text(kept.name),
        sequence=kept.sequence,
        keys=tuple(_key(place) for place in kept.issuing[: kept.issuing_count]),
        service_keys=tuple(_key(place) for place in kept.service[: kept.service_count]),
        advertising=bytes(kept.advertising),
        lists=tuple(_list(place) for place in kept.lists if place.generation),
    )


def _kept(kept: Any, log: BoxLogState) -> PersistentState:
    phones = tuple((bytes(place.thumbprint), place.counter) for place in kept.phones[: kept.phone_count])
    authority = _authority(kept) if kept.provisioned else None
    return PersistentState(
        _key(kept.self), bytes(kept.secret), kept.boot, kept.floor, kept.certain, kept.ahead, authority, phones, log
    )  # fmt: skip


def _link(place: Any) -> LinkState:
    bucket, proven_at = TokenBucket(place.tokens, place.since), place.proven_at if place.proven else None
    if not place.has_nonce:
        return LinkState(place.connection, bucket, proven_at=proven_at)
    return LinkState(place.connection, bucket, bytes(place.nonce), place.made, bytes(place.challenge), proven_at)


def _running(box: Any) -> VolatileState:
    phones: Sequence[Any] = box.kept.phones[: box.kept.phone_count]
    return VolatileState(
        booted=box.time - box.tick,
        bucket=TokenBucket(box.tokens, box.tick),
        phone_buckets={
            bytes(phone.thumbprint): PhoneBuckets(
                TokenBucket(PHONE - spent.remembered_key, box.tick), TokenBucket(PHONE - spent.other_key, box.tick)
            )
            for phone, spent in zip(phones, box.spent, strict=False)
        },
        challenges=box.challenges,
        connections=box.connections,
        links=tuple(_link(place) for place in box.links),
        good=tuple(bytes(each) for each in box.good[: box.good_count]),
        refused=(box.refused_count, BoxRefusalCode(box.refused_code)),
        skipped=box.skipped_count,
    )
