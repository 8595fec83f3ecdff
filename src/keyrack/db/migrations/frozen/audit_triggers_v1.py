"""Builds the triggers that record changes, from a description of the table as a resource."""

from __future__ import annotations

from dataclasses import dataclass, field

HIDDEN = "***"  # in place of a secret: that it was changed is recorded, and no more


@dataclass(frozen=True)
class AuditedTable:
    """A table whose rows are a resource. SQL has `{r}` for the row that it is about."""

    table: str
    resource: str
    id: str  # SQL of the resource's id, a text
    key: tuple[str, ...]  # columns that tell a row from all others
    members: dict[str, str]  # the API's name -> SQL
    secrets: dict[str, str] = field(default_factory=dict[str, str])  # the same for what is not told
    customer: str = "{r}.customer_id"  # SQL; 0 is the installation
    groups: str = "'{}'::integer[]"  # SQL of the groups that it is in
    kinds: dict[str, str] = field(
        default_factory=dict[str, str]
    )  # of an update: words of the domain -> SQL, old `o`, new `n`
    created: str = "created"
    deleted: str = "deleted"
    who: str = "acting()"
    events: tuple[str, ...] = ("insert", "update", "delete")
    beside: str = ""  # SQL that finds what is needed beside the row

    @property
    def statements(self) -> list[str]:
        """The function and its triggers.

        What is deleted is recorded row by row, before the cascades that take away what belonged to it, its groups for
        one: triggers of a row fire in the order of their names, and a cascade's begins with `RI_`.
        """
        function = (
            f"create function record_{self.table}() returns trigger language plpgsql as $$\nbegin\n"
            f"  if tg_op = 'INSERT' then\n{self._whole('n', 'new_rows', self.created, is_after=True)}"
            f"  elsif tg_op = 'DELETE' then\n{self._whole('o', '(select old.*)', self.deleted, is_after=False)}"
            f"  else\n{self._updated()}  end if;\n  return null;\nend $$"
        )
        rows = {
            "insert": "referencing new table as new_rows for each statement",
            "update": "referencing old table as old_rows new table as new_rows for each statement",
            "delete": "for each row",
        }
        triggers = [
            f'create trigger "RECORD_{event}" after {event} on {self.table} {rows[event]}'
            f" execute function record_{self.table}()"
            for event in self.events
        ]
        triggers.append(
            f'create trigger "RECORD_truncate" before truncate on {self.table}'
            " for each statement execute function refuse_truncate()"
        )
        return [function, *triggers]

    @property
    def state(self) -> str:
        """A query of all rows, as a creation of each would be recorded now; `part` is what is added to a resource."""
        part = self.created.removesuffix("Added") if self.created.endswith("Added") else ""
        return (
            f"select '{self.resource}'::text as resource, '{part}'::text as part, {self.customer} as customer_id,"
            f" {self.id} as resource_id, jsonb_strip_nulls(jsonb_build_object({self._told()})) as members"
            f" from {self.table} {{r}} {self.beside}"
        ).replace("{r}", "r")

    def _told(self) -> str:
        """What is told of a whole row."""
        return ", ".join(
            [f"'{name}', {sql}" for name, sql in self.members.items()]
            + [f"'{name}', case when {sql} is not null then '{HIDDEN}' end" for name, sql in self.secrets.items()]
        )

    def _into(self, row: str) -> str:
        return (
            "    insert into change_inbox (customer_id, kind, resource, resource_id, who, groups, before, after)\n"
            f"    select {self.customer}, {{kind}}, '{self.resource}', {self.id}, {self.who}, {self.groups}, "
        ).replace("{r}", row)

    def _whole(self, row: str, rows: str, word: str, *, is_after: bool) -> str:
        told = f"jsonb_strip_nulls(jsonb_build_object({self._told()}))"
        order = ", ".join("{r}." + column for column in self.key)
        return (
            self._into(row).replace("{kind}", f"'{self.resource}.{word}'")
            + (f"null, {told}" if is_after else f"{told}, null")
            + f"\n    from {rows} {row} {self.beside}\n    order by {order};\n"
        ).replace("{r}", row)

    def _updated(self) -> str:
        using = ", ".join(self.key)
        order = ", ".join("n." + column for column in self.key)
        return (
            f"    if (select count(*) from old_rows) <>\n"
            f"      (select count(*) from old_rows join new_rows using ({using}))\n    then\n"
            f"      raise exception 'The key of a row of {self.table} does not change.' using errcode = 'KR002';\n"
            "    end if;\n" + self._into("n").replace("{kind}", self._kind()) + "d.before, d.after\n"
            f"    from old_rows o join new_rows n using ({using}) {self.beside.replace('{r}', 'n')}\n"
            "    cross join lateral (\n"
            "      select jsonb_object_agg(m.name, m.old) as before, jsonb_object_agg(m.name, m.new) as after\n"
            f"      from (values\n        {self._both()}\n"
            "      ) m (name, old, new, differs) where m.differs) d\n"
            f"    where d.before is not null\n    order by {order};\n"
        )

    def _kind(self) -> str:
        kind = f"'{self.resource}.updated'"
        whens = " ".join(f"when {sql} then '{word}'" for word, sql in self.kinds.items())
        return f"case {whens} else {kind} end" if whens else kind

    def _both(self) -> str:
        """Each member with its old and its new value, and whether they differ."""
        rows: list[str] = []
        for name, sql in (self.members | self.secrets).items():
            old, new = sql.replace("{r}", "o"), sql.replace("{r}", "n")
            shown = [
                f"case when {one} is not null then '\"{HIDDEN}\"'::jsonb end"
                if name in self.secrets
                else f"to_jsonb({one})"
                for one in (old, new)
            ]
            rows.append(f"('{name}', {shown[0]}, {shown[1]}, {old} is distinct from {new})")
        return ",\n        ".join(rows)
