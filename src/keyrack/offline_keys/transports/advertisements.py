"""The rotating name that a box advertises (docs/key-bluetooth.md).

No stranger can follow a car by it. The server derives a key for each day from the box's secret. A phone gets the keys
of the days on which it may open.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from uuid import UUID

from keyrack.offline_keys.transports.bluetooth import SERVICE

SLOT_SECONDS = 900  # how long a name lasts
SLOTS_A_DAY = 96
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_FLAGS = bytes.fromhex("020106")  # general discoverable, no BR/EDR


def slot_at(time: int) -> int:
    """The slot of a time in seconds since 1970."""
    return time // SLOT_SECONDS


def day_of(slot: int) -> int:
    """The day of a slot, counted from 1970-01-01 in UTC."""
    return slot // SLOTS_A_DAY


def day_key(secret: bytes, day: int) -> bytes:
    """The key of a day, 16 bytes, from the box's advertising secret."""
    return hmac.digest(secret, b"keyrack-day-1" + _number(day), hashlib.sha256)[:16]


def name(key: bytes, slot: int) -> str:
    """The name in a slot, by the key of its day."""
    return _name(hmac.digest(key, b"keyrack-name-1" + _number(slot), hashlib.sha256))


def names_near(keys: Mapping[int, bytes], time: int, slots: int = 1) -> list[str]:
    """The names that a phone looks for, in order of slots.

    They are those of the slots from -`slots` to +`slots`. `keys` has the keys of days. A slot of another day has no
    name.
    """
    near = range(slot_at(time) - slots, slot_at(time) + slots + 1)
    return [name(keys[day_of(slot)], slot) for slot in near if day_of(slot) in keys]


def name_at(secret: bytes, time: int) -> str:
    """The name of a box with this secret at this time."""
    slot = slot_at(time)
    return name(day_key(secret, day_of(slot)), slot)


def name_without_authority(box_secret: bytes, boot: int) -> str:
    """The name of a box without an authority.

    It follows from the box's secret for nonces and its boot counter.
    """
    return _name(hmac.digest(box_secret, b"keyrack-name-0" + boot.to_bytes(8, "big"), hashlib.sha256))


def advertisement(name: str) -> bytes:
    """The 31 bytes of the advertisement: flags, service, local name."""
    return _FLAGS + b"\x11\x07" + UUID(SERVICE).bytes[::-1] + b"\x09\x09" + name.encode()


def _number(value: int) -> bytes:
    """The lowest 32 bits, big-endian: the clock of a box may go further than its slots have bits."""
    return (value & 0xFFFFFFFF).to_bytes(4, "big")


def _name(digest: bytes) -> str:
    bits = int.from_bytes(digest[:4], "big") >> 2
    return "K-" + "".join(ALPHABET[bits >> place & 31] for place in range(25, -1, -5))
