"""States of a box as JSON, before and after a message."""

from __future__ import annotations

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
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

Json = dict[str, Any]


def key(value: Json) -> PublicKey:
    return PublicKey(bytes.fromhex(value["x"]), bytes.fromhex(value["y"]))


def written(key: PublicKey) -> Json:
    return {"x": key.x.hex(), "y": key.y.hex()}


def dump(state: BoxMemory, numbers: range = range(0)) -> Json:
    """The whole state, with the log entries of these numbers."""
    kept, running, log = state.kept, state.running, state.kept.log
    authority = kept.authority
    return {
        "key": written(kept.key),
        "secret": kept.secret.hex(),
        "boot": kept.boot,
        "floor": kept.floor,
        "certain": int(kept.is_certain),
        "ahead": kept.ahead,
        "authority": {
            "root": written(authority.root),
            "iss": authority.iss,
            "name": authority.name,
            "sequence": authority.sequence,
            "keys": [written(each) for each in authority.keys],
            "serviceKeys": [written(each) for each in authority.service_keys],
            "advertising": authority.advertising.hex(),
        }
        if authority
        else None,
        "lists": [
            {
                "uri": each.uri,
                "generation": each.generation,
                "iat": each.iat,
                "revoked": _revoked(each.bits),
                "signer": each.signer.hex(),
            }
            for each in (authority.lists if authority else ())
        ],
        "phones": [[phone.hex(), counter] for phone, counter in kept.phones],
        "log": {
            "first": log.first,
            "next": log.next,
            "newest": log.newest.hex(),
            "entries": {str(n): log.entries[n - log.first].hex() for n in numbers if log.first <= n < log.next},
        },
        "booted": running.booted,
        "bucket": _bucket(running.bucket),
        "phoneBuckets": [_both(running.phone_buckets[phone]) for phone, _ in kept.phones],
        "challenges": running.challenges,
        "connections": running.connections,
        "links": [
            {
                "connection": each.connection,
                "bucket": _bucket(each.bucket),
                "nonce": each.nonce.hex(),
                "made": each.made,
                "challenge": each.challenge.hex(),
                "provenAt": each.proven_at,
            }
            for each in running.links
        ],
        "good": [each.hex() for each in running.good],
        "refused": [running.refused[0], int(running.refused[1])],
        "skipped": running.skipped,
    }


def load(value: Json) -> BoxMemory:
    """The state. Entries that are not given are empty."""
    authority, log = value["authority"], value["log"]
    entries = tuple(bytes.fromhex(log["entries"].get(str(n), "")) for n in range(log["first"], log["next"]))
    kept = PersistentState(
        key=key(value["key"]),
        secret=bytes.fromhex(value["secret"]),
        boot=value["boot"],
        floor=value["floor"],
        is_certain=bool(value["certain"]),
        ahead=value["ahead"],
        authority=authority
        and Authority(
            root=key(authority["root"]),
            iss=authority["iss"],
            name=authority["name"],
            sequence=authority["sequence"],
            keys=tuple(key(each) for each in authority["keys"]),
            service_keys=tuple(key(each) for each in authority["serviceKeys"]),
            advertising=bytes.fromhex(authority["advertising"]),
            lists=tuple(
                StatusList(
                    each["uri"], each["generation"], each["iat"], _bits(each["revoked"]), bytes.fromhex(each["signer"])
                )
                for each in value["lists"]
            ),
        ),
        phones=tuple((bytes.fromhex(phone), counter) for phone, counter in value["phones"]),
        log=BoxLogState(entries, log["next"], bytes.fromhex(log["newest"])),
    )
    running = VolatileState(
        booted=value["booted"],
        bucket=TokenBucket(**value["bucket"]),
        phone_buckets={
            bytes.fromhex(phone): PhoneBuckets(
                TokenBucket(**buckets["rememberedKey"]), TokenBucket(**buckets["otherKey"])
            )
            for (phone, _), buckets in zip(value["phones"], value["phoneBuckets"], strict=True)
        },
        challenges=value["challenges"],
        connections=value["connections"],
        links=tuple(
            LinkState(
                each["connection"],
                TokenBucket(**each["bucket"]),
                bytes.fromhex(each["nonce"]),
                each["made"],
                bytes.fromhex(each["challenge"]),
                each["provenAt"],
            )
            for each in value["links"]
        ),
        good=tuple(bytes.fromhex(each) for each in value["good"]),
        refused=(value["refused"][0], BoxRefusalCode(value["refused"][1])),
        skipped=value["skipped"],
    )
    return BoxMemory(kept, running)


def changes(before: BoxMemory, after: BoxMemory) -> Json:
    """The changed fields, with their new values; the log without its entries."""
    was, now = dump(before), dump(after)
    for each in (was, now):
        del each["log"]["entries"]
    return {member: value for member, value in now.items() if was[member] != value}


def _bucket(bucket: TokenBucket) -> Json:
    return {"tokens": bucket.tokens, "since": bucket.since}


def _both(buckets: PhoneBuckets) -> Json:
    return {"rememberedKey": _bucket(buckets.remembered_key), "otherKey": _bucket(buckets.other_key)}


def _revoked(bits: bytes) -> list[int]:
    return [index for index in range(8 * len(bits)) if bits[index // 8] >> index % 8 & 1]


def _bits(revoked: list[int]) -> bytes:
    bits = bytearray(256)
    for index in revoked:
        bits[index // 8] |= 1 << index % 8
    return bytes(bits)
