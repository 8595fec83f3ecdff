"""The sealed columns: every column with a secret that must stay readable.

All other secrets are stored as hashes, or are not in the database (docs/secrets.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from cryptography.exceptions import InvalidTag

from keyrack.db.connection import Connection, Row
from keyrack.db.encryption.cipher import decrypt, encrypt, number_of
from keyrack.db.encryption.master_keys import MasterKeyError

# Sealed values are bound to these names; see `Encryption.seal`
PRIVATE_KEY = "signing_key.private_key"
SIGNING_SECRET = "webhook.signing_secret"  # noqa: S105 - a name; the old secret has it too: a rotation moves it
STATIC_SECRET = "webhook.secret"  # noqa: S105 - a name
TOTP_SECRET = "totp.secret"  # noqa: S105 - a name
CLIENT_SECRET = "provider.client_secret"  # noqa: S105 - a name
PUSH_KEY = "push_key.private_key"
ROOT_KEY = "key_authority.private_key"
ISSUING_KEY = "issuing_key.private_key"
SERVICE_KEY = "service_key.private_key"
ROOT_REQUEST = "key_set_request.request"
ADVERTISING_SECRET = "box_epoch.advertising"  # noqa: S105 - a name

AT_ONCE = 500  # rows per statement


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column of secrets: the query of rows with another data key than $1, locked, and their update."""

    name: str
    select_stale: LiteralString  # $2: maximum rows -> customer_id, id, sealed
    update: LiteralString  # customers, ids, sealed
    # The secrets of customer $1 -> customer_id, id, sealed. None: they belong to the database
    select_of_customer: LiteralString | None = None


def _of_customer(name: str, table: LiteralString, id: LiteralString, column: LiteralString) -> EncryptedColumn:
    """A column of a table with the key `customer_id` and `id`, an integer.

    `id` may be `customer_id` itself.
    """
    return EncryptedColumn(
        name,
        "select customer_id, " + id + " as id, " + column + " as sealed from " + table
        + " where data_key_of(" + column + ") <> $1 order by customer_id, " + id + " limit $2 for update",
        "update " + table + " t set " + column + " = u.sealed"
        " from unnest($1::integer[], $2::integer[], $3::bytea[]) u (customer_id, id, sealed)"
        " where t.customer_id = u.customer_id and t." + id + " = u.id",
        "select customer_id, " + id + " as id, " + column + " as sealed from " + table
        + " where customer_id = $1 and " + column + " is not null",
    )  # fmt: skip


HOLDINGS = (
    EncryptedColumn(
        PRIVATE_KEY,
        "select 0 as customer_id, kid as id, private_key as sealed from signing_key"
        " where data_key_of(private_key) <> $1 order by kid limit $2 for update",
        "update signing_key k set private_key = u.sealed"
        " from unnest($1::integer[], $2::text[], $3::bytea[]) u (customer_id, id, sealed) where k.kid = u.id",
    ),
    _of_customer(SIGNING_SECRET, "webhook", "webhook_id", "signing_secret"),
    _of_customer(SIGNING_SECRET, "webhook", "webhook_id", "old_signing_secret"),
    _of_customer(STATIC_SECRET, "webhook", "webhook_id", "secret"),
    EncryptedColumn(
        TOTP_SECRET,
        "select 0 as customer_id, manager_id::text as id, secret as sealed from totp"
        " where data_key_of(secret) <> $1 order by manager_id limit $2 for update",
        "update totp t set secret = u.sealed"
        " from unnest($1::integer[], $2::text[], $3::bytea[]) u (customer_id, id, sealed)"
        " where t.manager_id = u.id::integer",
        "select 0 as customer_id, manager_id::text as id, secret as sealed from totp"
        " where manager_id in (select manager_id from manager_customer where customer_id = $1)",
    ),
    EncryptedColumn(
        CLIENT_SECRET,
        "select 0 as customer_id, provider_id as id, client_secret as sealed from provider"
        " where data_key_of(client_secret) <> $1 order by provider_id limit $2 for update",
        "update provider p set client_secret = u.sealed"
        " from unnest($1::integer[], $2::integer[], $3::bytea[]) u (customer_id, id, sealed)"
        " where p.provider_id = u.id",
    ),
    EncryptedColumn(
        PUSH_KEY,
        "select 0 as customer_id, push_key_id as id, private_key as sealed from push_key"
        " where data_key_of(private_key) <> $1 order by push_key_id limit $2 for update",
        "update push_key p set private_key = u.sealed"
        " from unnest($1::integer[], $2::integer[], $3::bytea[]) u (customer_id, id, sealed)"
        " where p.push_key_id = u.id",
    ),
    _of_customer(ROOT_KEY, "key_authority", "customer_id", "private_key"),
    _of_customer(ISSUING_KEY, "issuing_key", "issuing_key_id", "private_key"),
    _of_customer(SERVICE_KEY, "service_key", "service_key_id", "private_key"),
    _of_customer(ROOT_REQUEST, "key_set_request", "customer_id", "request"),
    EncryptedColumn(
        ADVERTISING_SECRET,
        "select customer_id, product_id || '.' || epoch as id, advertising as sealed from box_epoch"
        " where data_key_of(advertising) <> $1 order by customer_id, product_id, epoch limit $2 for update",
        "update box_epoch e set advertising = u.sealed"
        " from unnest($1::integer[], $2::text[], $3::bytea[]) u (customer_id, id, sealed)"
        " where e.customer_id = u.customer_id and e.product_id || '.' || e.epoch = u.id",
        "select customer_id, product_id || '.' || epoch as id, advertising as sealed from box_epoch"
        " where customer_id = $1 and advertising is not null",
    ),
)


async def seal_piece(
    connection: Connection, holding: EncryptedColumn, keys: dict[int, bytes], *, plain: bool = False
) -> int:
    """Reseal a batch of a column's secrets under the newest data key. Returns the number of rows.

    `plain`: also seal texts that an older release stored. Raises `MasterKeyError` with the row if a value does not
    open.
    """
    newest = max(keys)
    rows = await connection.fetch(holding.select_stale, newest, AT_ONCE)
    values = resealed(holding, rows, keys, newest, keys[newest], plain=plain)
    if rows:
        await connection.execute(
            holding.update, [row["customer_id"] for row in rows], [row["id"] for row in rows], values
        )
    return len(rows)


def resealed(
    holding: EncryptedColumn,
    rows: Sequence[Row],
    keys: Mapping[int, bytes],
    number: int,
    key: bytes,
    *,
    plain: bool = False,
) -> list[bytes]:
    """The secrets of these rows, sealed with another data key.

    `keys` open them. `plain` and errors are as in `seal_piece`.
    """
    values: list[bytes] = []
    for row in rows:
        place, value = (holding.name, row["customer_id"], row["id"]), row["sealed"]
        old = number_of(value)
        try:
            secret = value[1:].decode() if plain and old == 0 else decrypt(keys[old], value, place)
        except (InvalidTag, KeyError):
            raise MasterKeyError(
                f"{holding.name} of row {row['id']} does not open: it was changed, or moved from another row. "
                "Replace or remove this secret first. No other secret is affected."
            ) from None
        values.append(encrypt(key, number, secret, place))
    return values
