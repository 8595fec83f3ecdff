"""In charge of what a field, a complex member, a relation and a resource are; the tables stand in `fleet.schema`.

SQL here is a template: `{t}` is the alias of the row that owns the field, `{p}` that of the parent row of a relation.
Parameters have names (`keyrack.db.named_parameters`). `:customer` is whose rows they are, or `:manager` if a resource
belongs to managers. `:scope` is the group scope of the caller. `:id0` and `:id1` are the ids in the path of a read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import LiteralString

from keyrack.api.permissions import Free, Permission


class Type(Enum):
    """The primitive types of the contract, by their OData names (OData CSDL 4.01, section 3.3)."""

    INT32 = "Edm.Int32"
    INT64 = "Edm.Int64"
    DOUBLE = "Edm.Double"
    STRING = "Edm.String"
    BOOLEAN = "Edm.Boolean"
    DATE_TIME = "Edm.DateTimeOffset"
    WALL_CLOCK = "Edm.DateTime"  # of no offset: OData 4 has no type for it any more, earlier versions had
    GUID = "Edm.Guid"
    OPAQUE = "Edm.Untyped"  # JSON that is shown and selected, but neither compared nor ordered


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row. `sql` gives it in PostgreSQL's own type, `json_sql` as the answer's JSON wants it."""

    type: Type
    sql: LiteralString
    nullable: bool = False
    searchable: bool = False  # $search looks into it
    enum: tuple[str, ...] = ()
    json: LiteralString | None = None  # only where the answer differs from `sql`, or has it for less
    format: str | None = None  # OpenAPI's `format`, where the type alone does not give it
    natural: LiteralString | None = None  # the column with its natural order; null until housekeeping has filled it
    is_extension: bool = False  # beyond the spec: a caller of the spec gets it only if `$select` names it

    def version_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of a value that tells what is shown, for the row `alias`: cheaper than what is shown itself.

        Of eight bytes these themselves: PostgreSQL's hash of such a number has four bytes, so that many would be alike.
        """
        sql: LiteralString = (self.json or self.sql).format(t=alias)
        send = None if self.json is not None else _SENT.get(self.type)
        return sql if send is None else send + "(" + sql + ")"

    def json_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of the value as JSON shows it, for the row `alias`."""
        if self.json is not None:
            return self.json.format(t=alias)
        if self.type is Type.DATE_TIME:
            return utc(self.sql.format(t=alias))
        return self.sql.format(t=alias)


_SENT: Mapping[Type, LiteralString] = {
    Type.INT64: "int8send",
    Type.DATE_TIME: "timestamptz_send",
    Type.WALL_CLOCK: "timestamptz_send",
}


@dataclass(frozen=True, slots=True)
class Complex:
    """A member that is an object of the same row, such as `userData`; null if `is_present` is given and false."""

    fields: Mapping[str, Field]
    is_present: LiteralString | None = None  # SQL

    def json_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of the object as JSON, for the row `alias`."""
        members: LiteralString = ", ".join(
            [literal(name) + ", " + f.json_sql(alias) for name, f in self.fields.items()]
        )
        built: LiteralString = "json_build_object(" + members + ")"
        return (
            built
            if self.is_present is None
            else "case when " + self.is_present.format(t=alias) + " then " + built + " end"
        )


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of another resource that belong to a row: `link` joins `{t}` (theirs) to `{p}` (ours)."""

    target: str  # a resource's name
    link: LiteralString
    is_collection: bool = True
    is_group_scoped: bool = False  # it leads to the rows that exist for who is limited to groups


@dataclass(frozen=True, slots=True)
class IndexOrderSource:
    """Where an index leads to the rows that come first in the descending order of `field`, for which the resource's own
    tables would all be read: rows `{l}` of another table, at most one for each of ours, whose `key` is our key. Those
    that are no row of ours, or where `field` is null, are few."""

    field: str
    table: LiteralString
    scope: LiteralString  # the tenant's predicate, and that there is a value
    order: LiteralString  # the order of `field`, as the index has it and exactly
    key: LiteralString


@dataclass(frozen=True, slots=True)
class SearchSource:
    """The document of a row in which `$search` looks: the column, and what makes it where it is not filled yet."""

    column: LiteralString
    is_pending: LiteralString  # an index leads to the rows that are not filled
    computed: LiteralString


@dataclass(frozen=True, slots=True)
class GroupScope:
    """Which rows exist for who is limited to groups: the scope, `:scope`, is joined behind the table."""

    table: LiteralString
    scope: LiteralString
    # Members that show less to them
    fields: Mapping[str, Field | Complex] = field(default_factory=dict[str, Field | Complex])
    id_column: LiteralString = ""  # the column of the row's number, where each row is what is in the scope
    # A subselect of `customer_id` and `member_id` for lists, if more rows exist than `scope_member` names
    members: LiteralString = ""
    is_whole: bool = False  # `scope` replaces the resource's own predicate, which is that of callers without a scope


@dataclass(frozen=True, slots=True, eq=False)
class OwnRows:
    """The rows that a caller may read without the resource's permission: those that it asked for itself."""

    predicate: LiteralString  # `:caller` is the caller's number
    # Members that show less to a group-limited caller
    scoped_fields: Mapping[str, Field | Complex] = field(default_factory=dict[str, Field | Complex])


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One kind of row: where it is stored, whose it is, every field once. A constant: it is equal to itself only."""

    name: str  # of the type, as error messages and OpenAPI write it
    table: LiteralString  # the FROM clause, with `{t}` as the main alias
    scope: LiteralString  # the tenant's predicate; empty only for what belongs to nobody
    fields: Mapping[str, Field | Complex]
    key: tuple[str, ...] = ("id",)
    relations: Mapping[str, Relation] = field(default_factory=dict[str, Relation])
    scalar: str | None = None  # the field that an array of plain values consists of, such as /brands
    walks: tuple[str, ...] = ()  # beside the key, the fields in whose order an index leads through a tenant's rows
    newest: IndexOrderSource | None = None
    search: SearchSource | None = None  # without one, `$search` makes the document of the searchable fields
    hidden_columns: tuple[LiteralString, ...] = ()  # what can be changed and is never shown, such as a secret
    group_scope: GroupScope | None = None  # without one nothing of it exists for who is limited to groups
    permission: Permission | Free = field(kw_only=True)  # what whoever reads it needs, on its own or beside another

    def only(self, *names: str) -> Resource:
        """The same rows with these fields alone."""
        return replace(self, fields={name: self.fields[name] for name in names})

    def without(self, *names: str) -> Resource:
        """The same rows less these fields."""
        return replace(self, fields={name: f for name, f in self.fields.items() if name not in names})

    @property
    def has_extensions(self) -> bool:
        """Whether it has fields beyond the spec."""
        members = [f.fields.values() if isinstance(f, Complex) else (f,) for f in self.fields.values()]
        return any(f.is_extension for part in members for f in part)

    def order(self, alias: LiteralString) -> LiteralString:
        """SQL of the key, which every order ends with."""
        return ", ".join([self.value(name, alias) for name in self.key])

    def value(self, name: str, alias: LiteralString) -> LiteralString:
        """SQL of the primitive field `name`, for the row `alias`."""
        definition = self.fields[name]
        if isinstance(definition, Complex):
            raise TypeError(f"{self.name}.{name} is no primitive field")
        return definition.sql.format(t=alias)

    def version_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of 64 bits made of every value that is shown of the row, wherever it comes from, and of what is unseen:
        they differ where these differ, and are the same again where these are the same again."""
        members = [f.fields.values() if isinstance(f, Complex) else (f,) for f in self.fields.values()]
        values: list[LiteralString] = [f.version_sql(alias) for part in members for f in part]
        unseen: list[LiteralString] = [sql.format(t=alias) for sql in self.hidden_columns]
        return "hash_record_extended(row(" + ", ".join([*values, *unseen]) + "), 0)"

    def json_columns(self, alias: LiteralString) -> LiteralString:
        """SQL of the whole row as the answer shows it, in the model's order."""
        if self.scalar is not None:
            return self.fields[self.scalar].json_sql(alias) + " as value"
        return ", ".join([f.json_sql(alias) + " as " + quote_identifier(name) for name, f in self.fields.items()])


# The resources that relations lead to, by `Relation.target`; the module that declares a resource adds it
RESOURCES: dict[str, Resource] = {}


def utc(sql: LiteralString) -> LiteralString:
    """SQL of a `timestamptz` as RFC 3339 in UTC, with a fraction only where there is one."""
    return "(replace(timezone('UTC', " + sql + ")::text, ' ', 'T') || 'Z')"


# The names of fields are constants of the schemas; `name` is looked up there, so no text of a client comes here.
def quote_identifier(name: str, suffix: LiteralString = "") -> LiteralString:
    """A field's name as an SQL identifier, perhaps with something behind it."""
    return '"' + _constant(name) + suffix + '"'


def literal(name: str, suffix: LiteralString = "") -> LiteralString:
    """The same as a text in SQL."""
    return "'" + _constant(name) + suffix + "'"


def _constant(name: str) -> LiteralString:
    if not (name.isascii() and name.isalnum()):
        raise ValueError(f"not a field's name: {name!r}")
    return name  # pyright: ignore[reportReturnType] - checked above, and only ever a key of a field table


def int32(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.INT32, sql, nullable)


def int64(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.INT64, sql, nullable)


def double(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.DOUBLE, sql, nullable)


def double_as_text(sql: LiteralString) -> Field:
    """A number that the contract shows as a string, as the location's are (spec, "Location of a car")."""
    return Field(Type.DOUBLE, sql, nullable=True, json="(" + sql + ")::text", format="double")


def string(
    sql: LiteralString,
    *,
    nullable: bool = False,
    search: bool = False,
    enum: tuple[str, ...] = (),
    natural: LiteralString | None = None,
) -> Field:
    return Field(Type.STRING, sql, nullable, search, enum, natural=natural)


def boolean(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.BOOLEAN, sql, nullable)


def date_time(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.DATE_TIME, sql, nullable)


def wall_clock(sql: LiteralString, *, json: LiteralString) -> Field:
    """What a clock on the wall showed: `sql` as if it were UTC, to be compared; shown as `json` gives it."""
    return Field(Type.WALL_CLOCK, sql, json=json)


def guid(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.GUID, sql, nullable)


def opaque(sql: LiteralString) -> Field:
    return Field(Type.OPAQUE, sql)
