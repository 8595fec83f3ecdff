"""Writes the migration of declared members that no table has yet.

    make migration NAME=car_color

It compares the declarations with the catalogue of the migrated database (tests/golden/data/catalog.txt) and with the
migrations after it. The SQL of columns, triggers and search texts is written into the revision, so that a later change
of a declaration does not change it. Run again, it says that there is nothing to do.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from keyrack.api.schema.declaration import Member, ResourceTable, sql_default
from keyrack.changelog.declared_tables import TABLES
from keyrack.db.migrations import VERSIONS, module, revisions
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

CATALOG = Path(__file__).parent.parent / "tests" / "golden" / "data" / "catalog.txt"
NAME = re.compile(r"[a-z][a-z0-9_]*").fullmatch


class NotWritten(Exception):
    """A declaration needs a migration by hand. The text says which and how."""


@dataclass(frozen=True)
class NewMembers:
    """The members of one table that have no column yet."""

    table: ResourceTable
    members: tuple[Member, ...]

    @property
    def columns(self) -> list[str]:
        """Statements that add the columns. Raises `NotWritten`."""
        return [f"alter table {self.table.table} add column {self._column(member)}" for member in self.members]

    def _column(self, member: Member) -> str:
        text = f"{member.column} {member.sql_type}"
        if member.is_nullable:
            return text
        if member.is_required:
            raise NotWritten(
                f"{self.table.resource}.{member.name} is required and has no default, which existing rows need. "
                "Give it a default, or write the migration by hand: a nullable column, a housekeeping step that fills "
                'it, and `not null` in a later release (docs/data-model.md, "Write a migration").'
            )
        return f"{text} not null default {sql_default(member)}"

    def search(self, history: str) -> list[str]:
        """Statements that put searchable members into the search text of their table.

        `history` has the newest function and trigger last. Raises `NotWritten` if the function has another form.
        """
        columns = [member.column for member in self.members if member.info.is_searchable]
        signature = re.escape(f"search_document(r {self.table.table})")
        body = r"\n.*?\$function\$\n.*?\$function\$"
        functions = re.findall(rf"CREATE OR REPLACE FUNCTION public\.{signature}{body}", history, re.S)
        triggers = re.findall(
            rf"CREATE (?:OR REPLACE )?TRIGGER fill_search_text .*? ON public\.{self.table.table} .*", history
        )
        if not columns or not functions or not triggers:
            return []
        function, trigger = functions[-1], triggers[-1]
        arguments = re.search(r"select search_document\((.*)\)", function)
        if arguments is None:
            raise NotWritten(f"search_document({self.table.table}) has another form: write the migration by hand.")
        texts = ", ".join(f"r.{column}" for column in columns)
        if "array[" in arguments[1]:
            with_texts = arguments[1].replace("array[", f"array[{texts}, ", 1)
        else:
            with_texts = arguments[1].replace(", null, null", f", array[{texts}], null")
        new_trigger = re.sub(r"CREATE (OR REPLACE )?TRIGGER", "CREATE OR REPLACE TRIGGER", trigger)
        return [
            function.replace(arguments[1], with_texts),
            new_trigger.replace(", search_text", f", {', '.join(columns)}, search_text"),
        ]


def missing(history: str) -> list[NewMembers]:
    """The declared members without a column, by table."""
    found: list[NewMembers] = []
    for table in TABLES:
        block = re.search(rf"^table {table.table}(?::.*)?\n((?:  .*\n)*)", history, re.M)
        columns = set(re.findall(r"^  ([a-z_]+) ", block[1], re.M)) if block else set[str]()
        columns |= set(re.findall(rf"alter table {table.table} add column ([a-z_]+) ", history))
        members = tuple(member for member in table.members if member.column not in columns)
        if members:
            found.append(NewMembers(table, members))
    return found


def newest_tables() -> tuple[str, dict[str, AuditedTable]]:
    """The newest revision that describes the audited tables, and these by name."""
    revision = next(revision for revision in reversed(revisions()) if hasattr(module(revision), "tables"))
    return revision, {table.table: table for table in module(revision).tables()}


def revision_text(name: str, tables: list[NewMembers], history: str) -> str:
    """The Python text of the revision. Raises `NotWritten`."""
    last = revisions()[-1]
    described, audited = newest_tables()
    statements: list[str] = []
    members: dict[str, dict[str, str]] = {}
    for new in tables:
        table = audited[new.table.table]
        names = {member.recorded_name for member in new.members}
        recorded = {name: sql for name, sql in new.table.recorded.items() if name in names}
        members[table.table] = recorded
        table = replace(table, members={**table.members, **recorded})
        statements += new.columns
        statements.append(table.statements[0].replace("create function", "create or replace function", 1))
        statements += new.search(history)
    texts = "\n".join(f'    r"""\n{statement}\n""",' for statement in statements)
    return f'''"""{name.replace("_", " ").capitalize()}: written from the declarations by `make migration`."""
# ruff: noqa: E501, W291 - the SQL is PostgreSQL's own text

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "{_next(last)}"
down_revision = "{last}"

STATEMENTS = (
{texts}
)
# New members of the change log by table. A null is not recorded, so older rows equal their older changes
MEMBERS = {members!r}


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={{**table.members, **MEMBERS.get(table.table, {{}})}})
        for table in module("{described}").tables()
    ]


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement.strip())
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
'''


def _next(revision: str) -> str:
    """The next number. A revision may end with a letter."""
    return f"{int(revision[:4]) + 1:04}"


def main(arguments: list[str]) -> int:
    """Write the revision and return an exit status.

    0 if it is written or none is needed, 1 if it must be written by hand, 2 for a wrong name.
    """
    name = arguments[0] if arguments else ""
    if not NAME(name):
        print("Say what is new in small letters and _: make migration NAME=car_color", file=sys.stderr)
        return 2
    history = "\n".join(file.read_text() for file in (CATALOG, *sorted(VERSIONS.glob("[0-9]*_*.py"))))
    tables = missing(history)
    if not tables:
        print("Nothing to do: each declared member has its column.")
        return 0
    try:
        text = revision_text(name, tables, history)
    except NotWritten as reason:
        print(reason, file=sys.stderr)
        return 1
    path = VERSIONS / f"{_next(revisions()[-1])}_{name}.py"
    path.write_text(text)
    subprocess.run([Path(sys.executable).with_name("ruff"), "format", "--quiet", path], check=True)
    listed = ", ".join(f"{new.table.resource}.{member.name}" for new in tables for member in new.members)
    print(f"Written: src/keyrack/db/migrations/versions/{path.name} ({listed}).")
    print("Next: the German labels in src/keyrack/console/catalogue/de.po, then `make docs` and `make golden`.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
