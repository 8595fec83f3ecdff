"""Checks of box keys: traces of forged keys and status lists."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Connection
from keyrack.db.encryption.cipher import CannotDecrypt, Encryption
from keyrack.offline_keys.issuing_keys import InconsistentKeys, IssuingKeySigners
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring.findings import Finding

LISTED = 20  # rows in a finding
CODE = "box-keys"
AUTHORITIES: LiteralString = "select customer_id from key_authority order by customer_id"
OTHER_THUMBPRINTS: LiteralString = """
select 'customer ' || customer_id || ', device ' || encode(device_id, 'hex') as name from app_device
where key_thumbprint(public_key) <> device_id order by customer_id, device_id limit $1
"""
# A box cannot have a list or a key set that the server has not signed. 60 seconds allow for the clocks of nodes. An
# epoch before the current one counts as long as its keys have slots
UNSIGNED_LISTS: LiteralString = """
select 'customer ' || customer_id || ', box ' || product_id || ' in epoch ' || epoch as name
from box_epoch e left join key_authority t using (customer_id)
where (held_at > now() + interval '60 seconds' or held_sequence > t.sequence
  or held_generation > (select max(generation) from status_generation g
    where g.customer_id = e.customer_id and g.product_id = e.product_id and g.epoch = e.epoch)
  or held_at > (select listed_at from status_generation g where g.customer_id = e.customer_id
    and g.product_id = e.product_id and g.epoch = e.epoch and g.generation = e.held_generation))
and discarded_at is null and (epoch >= coalesce((select max(epoch) from box_epoch n
    where n.customer_id = e.customer_id and n.product_id = e.product_id and not n.is_pending), 0)
  or exists (select from box_key k where k.customer_id = e.customer_id and k.product_id = e.product_id
    and k.epoch = e.epoch and k.is_placed))
order by customer_id, product_id, epoch limit $1
"""
UNLIMITED: LiteralString = """
select 'customer ' || customer_id as name from key_authority t
where freshness is null and exists (select from box_epoch e where e.customer_id = t.customer_id)
order by customer_id limit $1
"""
SHARED_URIS: LiteralString = """
select 'customer ' || customer_id || ', box ' || product_id || ' in epoch ' || epoch as name from status_generation
group by customer_id, product_id, epoch, uri having count(*) > 1 order by customer_id, product_id, epoch limit $1
"""
ROTATE = (
    "Run `keyrack keys rotate --customer {customer} --revoke`. It repairs the row and revokes what other keys signed."
)
REGISTER = "Remove these phones, and run `keyrack keys rotate --revoke`. The change log shows who changed them."
UNLIMITED_TEXT = (
    "No limit holds for {}: a revoked phone that withholds lists from a box opens it until its key expires."
)
LOWER = "Set a limit with `keyrack keys policy --customer ID --limit 72h` (docs/keys.md, How long a revoked key opens)."
STOLEN = (
    "Check whether the server was restored to an older state. If it was not, another key has signed for these boxes:"
    " run `keyrack keys rotate --revoke` for the customer, and provision each box again (docs/keys.md, Provisioning)."
)
TRACES: tuple[tuple[LiteralString, str, str], ...] = (
    (OTHER_THUMBPRINTS, "The public keys of these phones do not match their ids", REGISTER),
    (UNSIGNED_LISTS, "These boxes have a status list or a key set that this server has not signed", STOLEN),
    (SHARED_URIS, "Two status lists of these boxes have the same URI", STOLEN),
)


async def examined(connection: Connection, vault: Encryption) -> list[Finding]:
    """Check authorities, registered phones and the status lists of boxes."""
    findings: list[Finding] = []
    signers = IssuingKeySigners(vault, logs=False)
    for row in await connection.fetch(AUTHORITIES):
        customer = row["customer_id"]
        try:
            await signers.key_set(connection, customer)
        except InconsistentKeys as error:
            text = f"The keys for boxes of customer {customer} were changed in the database: {error.difference}."
            findings.append(failure(CODE, text, ROTATE.format(customer=customer)))
        except CannotDecrypt:
            text = f"A key for boxes of customer {customer} cannot be decrypted: its row was changed or moved."
            findings.append(failure(CODE, text, "Restore the row from a backup (docs/backups.md)."))
    for query, text, action in TRACES:
        if rows := await connection.fetch(query, LISTED):
            findings.append(failure(CODE, f"{text}: {'; '.join(row['name'] for row in rows)}.", action))
    findings = findings or [ok(CODE, "the keys for boxes are unchanged")]
    if rows := await connection.fetch(UNLIMITED, LISTED):
        findings.append(warning("box-key-limit", UNLIMITED_TEXT.format(", ".join(row["name"] for row in rows)), LOWER))
    return findings
