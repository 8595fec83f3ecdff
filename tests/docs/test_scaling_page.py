"""docs/sharding-tables.md has each table of the schema with its obstacles, and docs/sharding.md names statements."""

from __future__ import annotations

import re
from typing import Any

from tests.docs.code_blocks import ROOT
from tests.support.servers import Sql

TEXT = (ROOT / "docs/sharding-tables.md").read_text()
STUDY = (ROOT / "docs/sharding.md").read_text()
# Where a table without a customer stands when the others are distributed by theirs
PLACES = {"copied", "one node", "by its key"}
# Partitions go with their tables; the keys and what could be in the way: unique without the customer, a foreign key
# that sets null, one to a table that has no customer, a trigger. Those that record changes have a section of their own
TABLES = """
with t as (
  select c.oid, c.relname as name, exists (select from pg_attribute where attrelid = c.oid and attname = 'customer_id'
    and not attisdropped) as of_customer
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
    """The page's table of tables: by its name, the cells behind it."""
    section = TEXT.split("<!-- tables:", 1)[1].split("\n## ", 1)[0]
    found = [line.strip("|").split("|") for line in section.splitlines() if re.match(r"\| `\w+` \|", line)]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in found}


def expected(table: Any) -> tuple[str, str]:
    """Its key, and what is in the way."""
    return table["key"] or "none", ", ".join(table["in_the_way"])


def test_every_table_has_its_place(sql: Sql) -> None:
    tables = {table["name"]: table for table in sql.rows(TABLES)}
    told = rows()
    assert sorted(told) == sorted(tables), "a new table needs a row in docs/sharding-tables.md"
    assert {name: (cells[0], cells[2]) for name, cells in told.items()} == {
        name: expected(table) for name, table in tables.items()
    }


def test_what_belongs_to_a_customer_is_placed_by_it(sql: Sql) -> None:
    """Its primary key holds the customer, and so each row can stand where the customer does."""
    told = rows()
    for table in sql.rows(TABLES):
        place, key = told[table["name"]][1], table["key"] or ""
        assert (place == "by customer") == table["of_customer"], table["name"]
        if table["of_customer"]:
            assert "`customer_id`" in key, table["name"]
        else:
            assert place in PLACES, table["name"]


def test_the_page_tells_how_many_there_are(sql: Sql) -> None:
    tables = sql.rows(TABLES)
    of_customer = [table for table in tables if table["of_customer"]]
    assert f"{len(tables)} tables, {len(of_customer)} of which belong to a customer" in " ".join(TEXT.split())


def test_the_statements_that_the_page_names_are_there() -> None:
    named = re.findall(r"`(?:\w+\.)*(\w+)\.([A-Z][A-Z_]+)`", STUDY)
    assert named
    for module, name in named:
        texts = [path.read_text() for path in (ROOT / "src/keyrack").rglob(f"{module}.py")]
        assert any(re.search(rf"^{name}\b", text, re.MULTILINE) for text in texts), f"{module}.{name}"
