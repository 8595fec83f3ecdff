"""In charge of what is kept about webhooks: registered, changed, removed, and their signing secrets."""

from __future__ import annotations

import base64
import secrets
from typing import Any, LiteralString
from urllib.parse import urlsplit

from keyrack.database.connection import Statements

INSERT: LiteralString = """
insert into webhook (customer_id, url, secret, kinds, is_enabled, signing_secret)
select $1, $2, $3, $4, $5, $6 where (select count(*) from webhook where customer_id = $1) < $7 returning webhook_id
"""
# What the patch does not name stays as it is
UPDATE: LiteralString = """
update webhook set
  url = case when $3 ? 'url' then $3->>'url' else url end,
  secret = case when $3 ? 'secret' then $3->>'secret' else secret end,
  kinds = case when $3 ? 'kinds' then array(select jsonb_array_elements_text($3->'kinds')) else kinds end,
  is_enabled = case when $3 ? 'enabled' then ($3->'enabled')::boolean else is_enabled end,
  disabled_reason = case when $3 ? 'enabled' then null else disabled_reason end
where customer_id = $1 and webhook_id = $2 returning webhook_id
"""
DELETE: LiteralString = """
with gone as (delete from webhook where customer_id = $1 and webhook_id = $2 returning customer_id, webhook_id)
insert into removed_webhook (customer_id, webhook_id) select customer_id, webhook_id from gone returning webhook_id
"""
ROTATE: LiteralString = """
update webhook set old_signing_secret = signing_secret, signing_secret = $3,
  old_signing_secret_until = now() + make_interval(hours => $4)
where customer_id = $1 and webhook_id = $2 returning old_signing_secret_until
"""
ENABLED: LiteralString = "select is_enabled from webhook where customer_id = $1 and webhook_id = $2"


def check_url(url: str) -> None:
    """Raises `ValueError` for what cannot be the address of a webhook. Whether it may be dialled is seen when it is."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("it must begin with https:// or http://")
    if not parts.hostname:
        raise ValueError("it names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a user name or a password")
    if parts.fragment:
        raise ValueError("it must not have a fragment")
    if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise ValueError("it must be printable ASCII without blanks")
    _ = parts.port  # raises for what is no port


def new_signing_secret() -> str:
    """A Standard Webhooks signing secret: `whsec_` and 32 random bytes in base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


async def rotate(statements: Statements, customer: int, webhook: int, overlap_hours: int) -> tuple[str, Any] | None:
    """A new signing secret, and until when the old one signs too; None when there is no such webhook."""
    secret = new_signing_secret()
    until = await statements.fetchval(ROTATE, customer, webhook, secret, overlap_hours)
    return None if until is None else (secret, until)
