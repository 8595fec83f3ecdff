"""The members `externalId` and `metadata` of cars, users, products, groups, assignments and webhooks.

`external_id` is compared byte by byte. Its unique indexes follow, one in each revision, and then the validation of the
checks. The checks are for changes that merge metadata: a request cannot see the limits of the result.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0077"
down_revision = "0076"

TABLES = ("car", "customer_user", "product", "fleet_group", "assignment", "webhook")
COLUMNS = 'alter table {table} add column external_id text collate "C", add column metadata jsonb'
FITS = """
create function metadata_fits(metadata jsonb) returns boolean language sql immutable parallel safe as $$
  select count(*) <= 20 and coalesce(sum(octet_length(key) + octet_length(value)), 0) <= 4096
  from jsonb_each_text(metadata)
$$
"""
CHECK = (
    "alter table {table} add constraint {table}_metadata_check"
    " check (metadata is null or metadata_fits(metadata)) not valid"
)
# Functions of the search fold letters by the collation of their arguments, and "C" folds ASCII alone
TEXT = 'r.external_id collate "default"'
# Table -> the columns whose change requires a new search text, and the text
SEARCHES = {
    "car": (
        "name, license_plate, description, brand, model, vin, external_id",
        "r.license_plate, r.name, array[r.description, r.brand, r.model], array[r.vin, " + TEXT + "]",
    ),
    "product": (
        "serial_number, unique_id, sap_number, external_id",
        "r.serial_number, null, array[r.sap_number], array[r.unique_id, " + TEXT + "]",
    ),
    "fleet_group": ("name, external_id", "null, r.name, null, array[" + TEXT + "]"),
}
DOCUMENT_OF = """
create or replace function search_document(r {table}) returns text language sql immutable parallel safe as $$
  select search_document({document})
$$
"""
TRIGGER = (
    "create or replace trigger fill_search_text before insert or update of {columns}, search_text on {table}"
    " for each row execute function fill_search_text()"
)
# A null is not recorded, so older rows equal their older changes
MEMBERS = {"externalId": "{r}.external_id", "metadata": "{r}.metadata"}


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, **MEMBERS}) if table.table in TABLES else table
        for table in module("0076").tables()
    ]


def upgrade() -> None:
    for table in TABLES:
        op.execute(COLUMNS.format(table=table))
    op.execute(FITS.strip())
    for table in TABLES:
        op.execute(CHECK.format(table=table))
    for table, (columns, document) in SEARCHES.items():
        op.execute(DOCUMENT_OF.format(table=table, document=document).strip())
        op.execute(TRIGGER.format(columns=columns, table=table))
    for table in tables():
        if table.table in TABLES:
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
