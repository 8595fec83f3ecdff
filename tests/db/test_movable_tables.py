"""The catalogue has nothing that would break the move of a customer."""

from __future__ import annotations

from typing import LiteralString

from tests.support.servers import Sql

# Partitions belong to their tables. A row of a person, such as a session, may name a customer, and belongs to none
WITHOUT_CUSTOMER_IN_KEY: LiteralString = """
select c.relname as name from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attname = 'customer_id' and a.attnotnull and not a.attisdropped
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey))
order by 1
"""
TABLES: LiteralString = """
select count(*) from pg_index i join pg_class c on c.oid = i.indrelid
join pg_attribute a on a.attrelid = c.oid and a.attname = 'customer_id' and a.attnum = any(i.indkey)
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and i.indisprimary
"""
# `O` is enabled, but not for the rows that a subscription applies
OTHER_TRIGGERS: LiteralString = """
select tgrelid::regclass::text || ' ' || tgname as name from pg_trigger where not tgisinternal and tgenabled <> 'O'
order by 1
"""


def test_each_table_of_a_customer_has_the_customer_in_its_primary_key(sql: Sql) -> None:
    """A publication filters by the customer, and an update needs the key."""
    assert [row["name"] for row in sql.rows(WITHOUT_CUSTOMER_IN_KEY)] == []
    assert sql.value(TABLES) > 60


def test_no_trigger_runs_for_rows_that_a_subscription_applies(sql: Sql) -> None:
    """Otherwise a move would record each change twice."""
    assert [row["name"] for row in sql.rows(OTHER_TRIGGERS)] == []
