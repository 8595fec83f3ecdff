"""docs/sharding-tables.md has each table with its obstacles, and docs/sharding.md names existing statements."""

from __future__ import annotations

import re
from typing import Any

from tests.docs.code_blocks import ROOT
from tests.support.servers import Sql

TEXT = (ROOT / "docs/sharding-tables.md").read_text()
STUDY = (ROOT / "docs/sharding.md").read_text()
# Places of tables without a customer if other tables are distributed by customer
PLACES = {"copied", "one node", "by its key"}
# Partitions belong to their tables. A row of a person, such as a session, may name a customer, and belongs to none.
# Columns: the key and the obstacles. Obstacles are a unique constraint without the customer, a foreign key that sets
# null, a foreign key to a table without a customer, and a trigger. Triggers that
# record changes have a separate section
TABLES = """
with t as (
  select c.oid, c.relname as name, exists (select from pg_attribute where attrelid = c.oid and attname = 'customer_id'
    and attnotnull and not attisdropped) as of_customer
  from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
)
select name, of_customer,
  (select string_agg(format('`%s`', a.attname), ', ' order by k.place)
   from pg_index i, unnest(i.indkey) with ordinality k (number, place)
   join pg_attribute a on a.attnum = k.number
   where i.indrelid = t.oid and i.indisprimary and a.attrelid = t.oid) as key,
  array(
    select format('unique `%s`', i.indexrelid::regclass) from pg_index i
    where i.indrelid = t.oid and i.indisunique and t.of_customer and not exists (
      select from pg_attribute a where a.attrelid = t.oid and a.attname = 'customer_id' and a.attnum = any(i.indkey))
    order by 1)
  || array(
    select format('`%s` sets null', conname) from pg_constraint
    where conrelid = t.oid and contype = 'f' and confdeltype in ('n', 'd') and t.of_customer order by 1)
  || array(
    select format('refers to `%s`', o.name) from pg_constraint f join t o on o.oid = f.confrelid
    where f.conrelid = t.oid and f.contype = 'f' and not o.of_customer order by 1)
  || array(
    select format('trigger `%s`', tgname) from pg_trigger where tgrelid = t.oid and not tgisinternal
    and not starts_with(tgname, 'RECORD_') order by 1
  ) as in_the_way
from t order by name
"""


def rows() -> dict[str, list[str]]:
    """The page's table of tables: the cells of each row by table name."""
    section = TEXT.split("<!-- tables:", 1)[1].split("\n## ", 1)[0]
    found = [line.strip("|").split("|") for line in section.splitlines() if re.match(r"\| `\w+` \|", line)]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in found}


def expected(table: Any) -> tuple[str, str]:
    """The key of a table and its obstacles."""
    return table["key"] or "none", ", ".join(table["in_the_way"])


def test_every_table_has_a_row(sql: Sql) -> None:
    tables = {table["name"]: table for table in sql.rows(TABLES)}
    told = rows()
    assert sorted(told) == sorted(tables), "a new table needs a row in docs/sharding-tables.md"
    assert {name: (cells[0], cells[2]) for name, cells in told.items()} == {
        name: expected(table) for name, table in tables.items()
    }


def test_tables_of_a_customer_are_placed_by_customer(sql: Sql) -> None:
    """The primary key contains the customer, which determines the row's node."""
    told = rows()
    for table in sql.rows(TABLES):
        place, key = told[table["name"]][1], table["key"] or ""
        assert (place == "by customer") == table["of_customer"], table["name"]
        if table["of_customer"]:
            assert "`customer_id`" in key, table["name"]
        else:
            assert place in PLACES, table["name"]


def test_the_page_has_the_number_of_tables(sql: Sql) -> None:
    tables = sql.rows(TABLES)
    of_customer = [table for table in tables if table["of_customer"]]
    assert f"{len(tables)} tables, {len(of_customer)} of which belong to a customer" in " ".join(TEXT.split())


def test_the_statements_that_the_page_names_exist() -> None:
    named = re.findall(r"`(?:\w+\.)*(\w+)\.([A-Z][A-Z_]+)`", STUDY)
    assert named
    for module, name in named:
        texts = [path.read_text() for path in (ROOT / "src/keyrack").rglob(f"{module}.py")]
        assert any(re.search(rf"^{name}\b", text, re.MULTILINE) for text in texts), f"{module}.{name}"
