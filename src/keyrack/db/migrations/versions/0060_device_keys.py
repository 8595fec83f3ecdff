"""Another public key of a phone is recorded.

The id of a phone is the thumbprint of its key (RFC 9679), so a true key needs no member of its own. A key with another
thumbprint was written by another program.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0060"
down_revision = "0059"

# SHA-256 of the COSE_Key, whose encoding has constant parts (RFC 9679, section 5)
THUMBPRINT = r"""
create function key_thumbprint(public_key bytea) returns bytea language sql immutable parallel safe strict as $$
  select sha256('\xa401022001215820'::bytea || substr(public_key, 1, 32) || '\x225820'::bytea || substr(public_key, 33))
$$
"""
OTHER_KEY = "case when key_thumbprint({r}.public_key) <> {r}.device_id then encode({r}.public_key, 'hex') end"


def _device() -> AuditedTable:
    (device,) = (table for table in module("0041").tables() if table.table == "app_device")
    return replace(device, members={**device.members, "otherPublicKey": OTHER_KEY})


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [_device() if table.table == "app_device" else table for table in module("0041").tables()]


def upgrade() -> None:
    op.execute(THUMBPRINT.strip())
    op.execute(_device().statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
