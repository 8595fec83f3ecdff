"""Storage of webhooks: registration, changes, removal, and signing secrets."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any, LiteralString

from keyrack.db.connection import Connection
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import SIGNING_SECRET, STATIC_SECRET
from keyrack.webhooks.declarations import WEBHOOKS, NewWebhook
from keyrack.webhooks.outcome_payload import WEBHOOK

# Encrypted secrets are bound to the id, so it is drawn first
NEXT_ID: LiteralString = "select nextval(pg_get_serial_sequence('webhook', 'webhook_id'))::integer"
INSERT: LiteralString = (
    "insert into webhook (customer_id, webhook_id, secret, signing_secret, " + WEBHOOKS.columns + ")"
    " select $1, $2, $3, $4, " + WEBHOOKS.parameters(6)
    + " where (select count(*) from webhook where customer_id = $1) < $5 returning webhook_id"
)  # fmt: skip
# Members that the patch does not name keep their values
UPDATE: LiteralString = (
    "update webhook set "
    + WEBHOOKS.assignments("$3")
    + """,
  secret = case when $3 ? 'secret' then $4 else secret end,
  disabled_reason = case when $3 ? 'enabled' then null else disabled_reason end
where customer_id = $1 and webhook_id = $2 returning """
    + WEBHOOK.version_sql("webhook")
)
DELETE: LiteralString = """
with gone as (delete from webhook where customer_id = $1 and webhook_id = $2 returning customer_id, webhook_id)
insert into removed_webhook (customer_id, webhook_id) select customer_id, webhook_id from gone returning webhook_id
"""
ROTATE: LiteralString = """
update webhook set old_signing_secret = signing_secret, signing_secret = $3,
  old_signing_secret_until = now() + make_interval(hours => $4)
where customer_id = $1 and webhook_id = $2 returning old_signing_secret_until
"""
# For a lost master key: a disabled webhook keeps its waiting deliveries, for the retry period at most (`cleanup`)
REPLACE: LiteralString = """
update webhook set signing_secret = $3, secret = null, old_signing_secret = null, old_signing_secret_until = null,
  is_enabled = false, disabled_reason = $4
where customer_id = $1 and webhook_id = $2
"""
ALL: LiteralString = "select customer_id, webhook_id from webhook order by customer_id, webhook_id for update"
ENABLED: LiteralString = "select is_enabled from webhook where customer_id = $1 and webhook_id = $2"


def new_signing_secret() -> str:
    """A Standard Webhooks signing secret: `whsec_` and 32 random bytes in base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


async def add(
    connection: Connection, vault: Encryption, customer: int, webhook: NewWebhook, limit: int
) -> tuple[int, str] | None:
    """Register a webhook; return its id and signing secret, or None if the customer has `limit` webhooks."""
    id = await connection.fetchval(NEXT_ID)
    signing = new_signing_secret()
    sealed = await vault.seal(connection, signing, SIGNING_SECRET, customer, id)
    static = webhook.secret and await vault.seal(connection, webhook.secret, STATIC_SECRET, customer, id)
    values = WEBHOOKS.values(webhook.model_copy(update={"url": webhook.url or ""}))  # a pull webhook has none
    added = await connection.fetchval(INSERT, customer, id, static, sealed, limit, *values)
    return None if added is None else (id, signing)


async def change(
    connection: Connection, vault: Encryption, customer: int, webhook: int, changes: Mapping[str, Any]
) -> int | None:
    """Change these members; return the new version, or None if there is no such webhook."""
    secret = changes.get("secret")
    static = secret and await vault.seal(connection, secret, STATIC_SECRET, customer, webhook)
    values = {**changes, "secret": True} if "secret" in changes else changes
    return await connection.fetchval(UPDATE, customer, webhook, values, static)


async def rotate(
    connection: Connection, vault: Encryption, customer: int, webhook: int, overlap_hours: int
) -> tuple[str, Any] | None:
    """Make a new signing secret; return it, and until when the old one also signs.

    Returns None if there is no such webhook.
    """
    secret = new_signing_secret()
    sealed = await vault.seal(connection, secret, SIGNING_SECRET, customer, webhook)
    until = await connection.fetchval(ROTATE, customer, webhook, sealed, overlap_hours)
    return None if until is None else (secret, until)


async def replace_all(connection: Connection, vault: Encryption, reason: str) -> int:
    """Replace the signing secrets of all webhooks after a loss of the old ones; return their number.

    Static secrets are removed, and the webhooks are disabled. Nobody has seen the new secrets: before a webhook is
    enabled again, `rotate` makes one for its receiver.
    """
    webhooks = await connection.fetch(ALL)
    for row in webhooks:
        customer, id = row["customer_id"], row["webhook_id"]
        sealed = await vault.seal(connection, new_signing_secret(), SIGNING_SECRET, customer, id)
        await connection.execute(REPLACE, customer, id, sealed, reason)
    return len(webhooks)


async def signing_secret(vault: Encryption, webhook: tuple[int, int], value: bytes) -> str:
    """Decrypt a signing secret of the customer's webhook, the old or the new one. Raises `CannotDecrypt`."""
    return await vault.open(value, SIGNING_SECRET, *webhook)


async def static_secret(vault: Encryption, webhook: tuple[int, int], value: bytes) -> str:
    """Decrypt the static secret, the value of the header `secret`. Raises `CannotDecrypt`."""
    return await vault.open(value, STATIC_SECRET, *webhook)
