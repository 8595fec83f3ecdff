"""Fields, complex fields, relations and resources. `fleet.schema` has the tables.

SQL here is a template: `{t}` is the alias of the row that owns the field, `{p}` that of the parent row of a relation.
Parameters have names (`keyrack.db.named_parameters`). `:customer` owns the rows, or `:manager` if a resource belongs to
managers. `:scope` is the group scope of the caller. `:id0` and `:id1` are the ids in the path of a read.
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
    WALL_CLOCK = "Edm.DateTime"  # without an offset: OData 4 has no type for it, earlier versions had
    GUID = "Edm.Guid"
    OPAQUE = "Edm.Untyped"  # JSON that can be selected, but neither compared nor ordered
    MAP = "Collection(Edm.String)"  # texts by key; `metadata/plan` is the text of a key, or null


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row. `sql` has PostgreSQL's own type, `json_sql` the JSON form."""

    type: Type
    sql: LiteralString
    nullable: bool = False
    searchable: bool = False  # $search includes it
    enum: tuple[str, ...] = ()
    json: LiteralString | None = None  # only if the JSON differs from `sql`, or is cheaper
    format: str | None = None  # OpenAPI's `format`, if the type does not determine it
    natural: LiteralString | None = None  # the column with its natural order; null until housekeeping has filled it
    is_extension: bool = False  # beyond the spec: callers of the spec get it only if `$select` names it

    def version_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of a value that changes with the represented value.

        It is for the row `alias`, and cheaper than the representation. Eight-byte values are used directly:
        PostgreSQL's hash of such a number has four bytes, so collisions would be frequent.
        """
        sql: LiteralString = (self.json or self.sql).format(t=alias)
        send = None if self.json is not None else _SENT.get(self.type)
        return sql if send is None else send + "(" + sql + ")"

    def json_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of the value in JSON form, for the row `alias`."""
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
    """An object within the row, such as `userData`; null if `is_present` is given and false."""

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
    """Rows of another resource that belong to a row.

    `link` is the join condition of `{t}` (the other rows) and `{p}` (this row).
    """

    target: str  # the name of a resource
    link: LiteralString
    is_collection: bool = True
    is_group_scoped: bool = False  # it leads to the rows in the group scope


@dataclass(frozen=True, slots=True)
class IndexOrderSource:
    """An index that finds the first rows in descending order of `field`.

    Without it, all tables of the resource would be read. It consists of rows `{l}` of another table, at most one per
    row of the resource, whose `key` is the resource's key. Few of them have no row, or a null `field`.
    """

    field: str
    table: LiteralString
    scope: LiteralString  # the tenant's predicate, and that the value is not null
    order: LiteralString  # the order of `field`, exactly as in the index
    key: LiteralString


@dataclass(frozen=True, slots=True)
class SearchSource:
    """The search document of a row for `$search`, and the SQL that computes a missing one."""

    column: LiteralString
    is_pending: LiteralString  # an index leads to the rows without it
    computed: LiteralString
    # A column of the documents' table, and keys of further rows that match: SQL of {0}, the word. The first keys are
    # those of texts equal to it, the second those of texts that begin with it
    key: LiteralString = ""
    equal_keys: LiteralString = ""
    prefix_keys: LiteralString = ""


@dataclass(frozen=True, slots=True)
class MemberRows:
    """Rows that belong to members of a group scope.

    Events belong to cars, for example. An index orders the rows of each member by the key, and by each of the
    resource's `walks`. None of these is nullable.
    """

    ids: LiteralString  # SELECT of the members' ids
    member: LiteralString  # the column with the id of a row's member
    condition: LiteralString  # whether a row of a member is in the scope; "" if each is
    is_in_scope: LiteralString  # whether a row of any member is in the scope; it looks up each row in an index
    is_of_member: LiteralString  # whether a row belongs to any member of the scope
    table: LiteralString = ""  # of the resource, without the scope
    scope: LiteralString = ""  # the tenant's predicate alone


@dataclass(frozen=True, slots=True)
class GroupScope:
    """The rows that exist for group-limited callers. `table` joins the scope, `:scope`, to the table."""

    table: LiteralString
    scope: LiteralString
    # Fields that reveal less to them
    fields: Mapping[str, Field | Complex] = field(default_factory=dict[str, Field | Complex])
    id_column: LiteralString = ""  # the column of the row's id, if each row is itself in the scope
    # A subselect of `customer_id` and `member_id` for lists, if more rows exist than those in `scope_member`
    members: LiteralString = ""
    member_rows: MemberRows | None = None  # other ways to the first rows, if they belong to members of the scope
    is_whole: bool = False  # `scope` replaces the resource's own predicate, which is for callers without a scope


@dataclass(frozen=True, slots=True, eq=False)
class OwnRows:
    """The caller's own rows, which it may read without the resource's permission."""

    predicate: LiteralString  # `:caller` is the caller's id
    # Fields that reveal less to a group-limited caller
    scoped_fields: Mapping[str, Field | Complex] = field(default_factory=dict[str, Field | Complex])


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A resource: its table, its tenant, and each field once. A constant that is equal only to itself."""

    name: str  # of the type, as in errors and OpenAPI
    table: LiteralString  # the FROM clause, with `{t}` as the main alias
    scope: LiteralString  # the tenant's predicate; empty only for resources without an owner
    fields: Mapping[str, Field | Complex]
    key: tuple[str, ...] = ("id",)
    relations: Mapping[str, Relation] = field(default_factory=dict[str, Relation])
    scalar: str | None = None  # the only field of an array of plain values, such as /brands
    walks: tuple[str, ...] = ()  # beside the key, the fields for which an index orders a tenant's rows
    newest: IndexOrderSource | None = None
    member_rows: MemberRows | None = None  # for group-limited callers
    all_rows: LiteralString = ""  # FROM and WHERE that count all rows without reading them, if there is such a way
    table_of_key: LiteralString = ""  # FROM of the row whose key, `{key}`, is in the scope; "" if `table` finds it
    search: SearchSource | None = None  # without one, `$search` builds the document from the searchable fields
    hidden_columns: tuple[LiteralString, ...] = ()  # changeable columns that are never returned, such as a secret
    group_scope: GroupScope | None = None  # without one, no row exists for group-limited callers
    permission: Permission | Free = field(kw_only=True)  # the permission to read it, alone or as a relation

    def only(self, *names: str) -> Resource:
        """The resource with only these fields."""
        return replace(self, fields={name: self.fields[name] for name in names})

    def without(self, *names: str) -> Resource:
        """The resource without these fields."""
        return replace(self, fields={name: f for name, f in self.fields.items() if name not in names})

    @property
    def has_extensions(self) -> bool:
        """Whether it has fields beyond the spec."""
        members = [f.fields.values() if isinstance(f, Complex) else (f,) for f in self.fields.values()]
        return any(f.is_extension for part in members for f in part)

    def order(self, alias: LiteralString) -> LiteralString:
        """SQL of the key, with which every order ends."""
        return ", ".join([self.value(name, alias) for name in self.key])

    def value(self, name: str, alias: LiteralString) -> LiteralString:
        """SQL of the primitive field `name`, for the row `alias`."""
        definition = self.fields[name]
        if isinstance(definition, Complex):
            raise TypeError(f"{self.name}.{name} is not a primitive field")
        return definition.sql.format(t=alias)

    def version_sql(self, alias: LiteralString) -> LiteralString:
        """SQL of 64 bits from all returned and hidden values of the row.

        They differ if a value differs, and return if the values return.
        """
        members = [f.fields.values() if isinstance(f, Complex) else (f,) for f in self.fields.values()]
        values: list[LiteralString] = [f.version_sql(alias) for part in members for f in part]
        unseen: list[LiteralString] = [sql.format(t=alias) for sql in self.hidden_columns]
        return "hash_record_extended(row(" + ", ".join([*values, *unseen]) + "), 0)"

    def json_columns(self, alias: LiteralString) -> LiteralString:
        """SQL of the whole row in JSON form, in the model's order."""
        if self.scalar is not None:
            return self.fields[self.scalar].json_sql(alias) + " as value"
        return ", ".join([f.json_sql(alias) + " as " + quote_identifier(name) for name, f in self.fields.items()])


# The targets of relations, by `Relation.target`; the module that declares a resource adds it
RESOURCES: dict[str, Resource] = {}


def utc(sql: LiteralString) -> LiteralString:
    """SQL of a `timestamptz` as RFC 3339 in UTC, without a zero fraction."""
    return "(replace(timezone('UTC', " + sql + ")::text, ' ', 'T') || 'Z')"


# The names of fields are constants of the schemas; `name` is looked up there, so it is never a client's text.
def quote_identifier(name: str, suffix: LiteralString = "") -> LiteralString:
    """A field's name as an SQL identifier, with an optional suffix."""
    return '"' + _constant(name) + suffix + '"'


def literal(name: str, suffix: LiteralString = "") -> LiteralString:
    """A field's name as an SQL string, with an optional suffix."""
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
    """A number that the API sends as a string (spec, "Location of a car")."""
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
    """A local wall clock time.

    `sql` compares it as if it were UTC, `json` is its representation.
    """
    return Field(Type.WALL_CLOCK, sql, json=json)


def guid(sql: LiteralString, *, nullable: bool = False) -> Field:
    return Field(Type.GUID, sql, nullable)


def opaque(sql: LiteralString) -> Field:
    return Field(Type.OPAQUE, sql)


def text_map(sql: LiteralString, *, nullable: bool = False) -> Field:
    """Texts by key, in a column of the type `jsonb`."""
    return Field(Type.MAP, sql, nullable)
