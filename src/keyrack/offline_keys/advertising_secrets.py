"""The secret of a box's advertised names, and its day keys.

The secret is sealed in the database. Only the box gets it. A phone gets the keys of the days on which one of its keys
may open, so a former driver cannot follow the car (docs/key-bluetooth.md, "Advertisement").
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from keyrack.db.connection import Connection
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import ADVERTISING_SECRET
from keyrack.offline_keys.transports.advertisements import SLOT_SECONDS, day_key, day_of, slot_at

LENGTH = 16  # bytes
MARGIN = SLOT_SECONDS  # a phone also looks for the names of the slots before and after its own

EpochOfBox = tuple[int, int]  # a product and an epoch
Period = tuple[datetime, datetime]  # the validity of a key


class DayKey(NamedTuple):
    """The key of all names of one day. Days count from 1970-01-01 in UTC."""

    day: int
    key: bytes


async def seal_new(connection: Connection, vault: Encryption, customer: int, box: EpochOfBox) -> bytes:
    """A new secret for a box, sealed for its row. Raises `CannotDecrypt`."""
    text = base64.b64encode(secrets.token_bytes(LENGTH)).decode()
    return await vault.seal(connection, text, *_place(customer, box))


async def unseal(vault: Encryption, customer: int, box: EpochOfBox, sealed: bytes) -> bytes:
    """The secret of a box. Raises `CannotDecrypt`."""
    return base64.b64decode(await vault.open(sealed, *_place(customer, box)), validate=True)


async def day_keys(
    vault: Encryption, customer: int, box: EpochOfBox, sealed: bytes | None, periods: Iterable[Period]
) -> list[DayKey]:
    """The day keys of a box, the first day first.

    `periods` are the validity periods of the phone's keys. There are none without a secret. A key is valid for 28 days
    at most, which are parts of 30 days with the margin. Raises `CannotDecrypt`.
    """
    days = sorted({day for period in periods for day in _days(*period)})
    if sealed is None or not days:
        return []
    secret = await unseal(vault, customer, box, sealed)
    return [DayKey(day, day_key(secret, day)) for day in days]


def _days(begins: datetime, expires: datetime) -> range:
    """The days of a validity period with its margin."""
    first, last = int(begins.timestamp()) - MARGIN, int(expires.timestamp()) + MARGIN
    return range(day_of(slot_at(first)), day_of(slot_at(last)) + 1)


def _place(customer: int, box: EpochOfBox) -> tuple[str, int, str]:
    """The place to which a secret is bound."""
    product, epoch = box
    return ADVERTISING_SECRET, customer, f"{product}.{epoch}"
