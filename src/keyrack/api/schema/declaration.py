"""The declaration of a resource: one pydantic model with metadata for each member.

A member is declared once, as `Annotated[type, MemberInfo(...)]`. Its column, API name, SQL type, nullability, maximum
length and default follow from the annotation. A `ResourceTable` provides the rest: the properties of the resource;
body, patch, INSERT and UPDATE; the members of exports and of the change log. OpenAPI, the console and the command line
use its texts, inputs and columns as well.

A member that is no column of the table has `shown(...)` in place of `MemberInfo(...)`: its property and its description
follow. A resource whose statements or bodies are not those of its columns alone takes the parts that are: `columns`,
`parameters`, `values`, `assignments` and `partial`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, LiteralString, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import GetPydanticSchema, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, core_schema

from keyrack.api.schema import text_maps
from keyrack.api.schema.field_errors import at, blank
from keyrack.api.schema.fields import Field, Type, boolean, date_time, double, guid, int32, opaque, string, text_map
from keyrack.api.schema.request_body import (
    IN_NFC,
    AnyText,
    Body,
    PatchStep,
    apply_patch,
    invalid_member,
    validate_body,
)
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest
from keyrack.core.text import FREE_TEXT, NOT_BLANK, is_blank
from keyrack.db.named_parameters import NUMBERS

LONG_TEXT = 250  # characters; a longer text has a multi-line input


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """The metadata of a member beside its type."""

    label: str  # in the console, marked for the catalogues by `N_`
    in_sentence: str  # the label within a sentence of the change log, with its article
    description: str  # in OpenAPI
    example: Any  # in OpenAPI, as JSON
    hint: str = ""  # below its input in the console
    column: LiteralString = ""  # if it differs from the attribute's name
    is_searchable: bool = False  # `$search` includes it
    has_natural_order: bool = False  # `sort_key` orders the rows by it
    is_personal: bool = False  # an erasure removes it from the change log
    recorded_as: LiteralString = ""  # its name in the change log, if it differs from the API's name
    is_listed: bool = True  # a column of the command line
    is_code: bool = False  # the console shows it in a monospaced font
    is_extension: bool = False  # beyond the spec: callers of the spec get it only if `$select` names it
    is_read_only: bool = False  # no body has it
    is_secret: bool = False  # no answer and no export has it, and its statements encrypt it
    is_inverted: bool = False  # the column of a flag has the opposite
    exported_as: LiteralString | None = ""  # its name in exports, unless that is the API's; None if they lack it
    sql: LiteralString = ""  # of the property, of the row `{t}`, unless that is the column alone
    is_column: bool = True  # of the table; `shown` makes the others


def shown(description: str, example: Any, sql: LiteralString) -> MemberInfo:
    """The facts about a read-only member without a column.

    Writing statements, exports and the change log do not have it.
    """
    return MemberInfo("", "", description, example, sql=sql, is_column=False)


@dataclass(frozen=True, slots=True)
class Member:
    """A declared member of a resource: a column of its table, or a computed value."""

    attribute: str
    name: LiteralString  # in the API
    column: LiteralString
    type: Type
    is_nullable: bool
    default: Any  # of a new row; `PydanticUndefined` if the member is required
    max_length: int | None  # characters of a text
    is_free_text: bool  # it is stored in NFC
    has_pattern: bool  # it has a form of its own, beyond the rules of free text
    enum: tuple[str, ...]
    info: MemberInfo

    @property
    def is_checked_as_text(self) -> bool:
        """Whether a value is checked by the rules of free text alone."""
        return self.type is Type.STRING and not self.enum and not self.has_pattern

    @property
    def sql_type(self) -> LiteralString:
        return "bytea" if self.info.is_secret else _SQL_TYPES[self.type]

    @property
    def recorded_name(self) -> LiteralString:
        """Its name in the change log."""
        return self.info.recorded_as or self.name

    @property
    def exported_name(self) -> LiteralString:
        """Its name in exports."""
        return self.info.exported_as or self.name

    @property
    def is_exported(self) -> bool:
        return not self.info.is_secret and self.info.exported_as is not None

    @property
    def is_required(self) -> bool:
        """Whether the body of a new row must have it."""
        return self.default is PydanticUndefined

    @property
    def is_long(self) -> bool:
        """Whether it is a text of several lines."""
        return (self.max_length or 0) > LONG_TEXT

    def property(self, alias: LiteralString) -> Field:
        """The property of a resource, of the row `alias`."""
        return replace(self._property(alias), is_extension=self.info.is_extension)

    def _property(self, alias: LiteralString) -> Field:
        sql: LiteralString = self.info.sql or alias + "." + self.column
        if self.info.is_inverted:
            sql = "(not " + sql + ")"
        match self.type:
            case Type.INT32:
                return int32(sql, nullable=self.is_nullable)
            case Type.DOUBLE:
                return double(sql, nullable=self.is_nullable)
            case Type.BOOLEAN:
                return boolean(sql, nullable=self.is_nullable)
            case Type.DATE_TIME:
                return date_time(sql, nullable=self.is_nullable)
            case Type.GUID:
                return guid(sql, nullable=self.is_nullable)
            case Type.OPAQUE:
                return opaque("to_jsonb(" + sql + ")")
            case Type.MAP:
                return text_map(sql, nullable=self.is_nullable)
            case _:
                natural: LiteralString | None = alias + ".sort_key" if self.info.has_natural_order else None
                return string(
                    sql, nullable=self.is_nullable, search=self.info.is_searchable, enum=self.enum, natural=natural
                )

    def value(self, body: Body) -> object:
        """The column's value in a new row: that of the body, else the default."""
        value = getattr(body, self.attribute, None)
        if value is None and not self.is_nullable:
            value = self.default
        if self.type is Type.MAP:
            return value or None
        return not value if self.info.is_inverted else value

    def changed(self, changes: LiteralString) -> LiteralString:
        """SQL of the column's new value, from the member of the JSON object `changes`."""
        if self.type is Type.OPAQUE:
            return "array(select jsonb_array_elements_text(" + changes + "->'" + self.name + "'))"
        if self.type is Type.MAP:
            return text_maps.changed_sql(self.column, changes + "->'" + self.name + "'")
        value: LiteralString = "(" + changes + "->>'" + self.name + "')::" + self.sql_type
        return "not " + value if self.info.is_inverted else value


_SQL_TYPES: Mapping[Type, LiteralString] = {
    Type.STRING: "text",
    Type.INT32: "integer",
    Type.DOUBLE: "double precision",
    Type.BOOLEAN: "boolean",
    Type.DATE_TIME: "timestamptz",
    Type.GUID: "uuid",
    Type.OPAQUE: "text[]",
    Type.MAP: "jsonb",
}
_TYPES: Mapping[type, Type] = {
    str: Type.STRING,
    int: Type.INT32,
    float: Type.DOUBLE,
    bool: Type.BOOLEAN,
    datetime: Type.DATE_TIME,
    UUID: Type.GUID,
    list: Type.OPAQUE,  # of texts
    dict: Type.MAP,  # of texts
}


class ResourceTable:
    """A database table whose rows are a resource.

    `model` declares its members, in the order of the resource. It is also the body of a new row if the API creates
    rows, unless these have another form. `first` lists the members that identify a row for people: forms and lists
    begin with them. `alias` is the table's alias in the SQL of the resource. `is_personal`: an erasure removes all
    members from the change log.
    """

    def __init__(
        self,
        resource: str,
        table: LiteralString,
        model: type[Body],
        *,
        key: LiteralString,
        id: tuple[str, Any] | None = None,
        first: tuple[str, ...] = (),
        alias: LiteralString = "{t}",
        is_personal: bool = False,
    ) -> None:
        self.resource = resource
        self.table: LiteralString = table
        self.model = model
        self.key: LiteralString = key
        self._id = id  # description and example, if the resource has an id
        self._first = first
        self._alias: LiteralString = alias
        self._shown = tuple(
            [_member(name, field_info, is_personal=is_personal) for name, field_info in model.model_fields.items()]
        )
        self.members = tuple([member for member in self._shown if member.info.is_column])
        self._written = tuple([m for m in self.members if not (m.info.is_read_only or m.info.is_secret)])
        self._required = frozenset([m.name for m in self.members if m.is_required and not m.is_nullable])
        self.by_name: Mapping[str, Member] = {member.name: member for member in self.members}

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The properties of the resource, without `id`."""
        return {member.name: member.property(self._alias) for member in self._shown if not member.info.is_secret}

    @cached_property
    def in_forms(self) -> tuple[Member, ...]:
        """The members in display order: those of `first`, then the others, multi-line texts last.

        Maps are not among them.
        """
        first = [self.by_name[name] for name in self._first]
        others = [member for member in self.members if member not in first and member.type is not Type.MAP]
        return (*first, *sorted(others, key=lambda member: member.is_long))

    @cached_property
    def fields_in_forms(self) -> dict[str, Field]:
        """The properties in the order of forms."""
        return {member.name: self.fields[member.name] for member in self.in_forms}

    @cached_property
    def insert(self) -> LiteralString:
        """The statement for a new row of customer $1. The other parameters are `values` of the body."""
        into: LiteralString = "insert into " + self.table + " (customer_id, " + self.columns + ")"
        return into + " values ($1, " + self.parameters(2) + ") returning " + self.key

    @cached_property
    def columns(self) -> LiteralString:
        """The columns that bodies write."""
        return ", ".join([member.column for member in self._written])

    def parameters(self, first: int) -> LiteralString:
        """A parameter for each of `columns`, numbered from `first` on."""
        return ", ".join(["$" + NUMBERS[number] for number in range(first, first + len(self._written))])

    def values(self, body: Body) -> list[object]:
        """The values of `columns` in a new row."""
        return [member.value(body) for member in self._written]

    @cached_property
    def update(self) -> LiteralString:
        """The statement for changes of row $2 of customer $1; $3 is the result of `changes`."""
        return (
            "update " + self.table + " set " + self.assignments("$3")
            + " where customer_id = $1 and " + self.key + " = $2"
        )  # fmt: skip

    def assignments(self, changes: LiteralString) -> LiteralString:
        """The SET list of `columns`, from a JSON object of changed members.

        A column without a changed member keeps its value.
        """
        return ", ".join([
            member.column + " = case when " + changes + " ? '" + member.name + "' then " + member.changed(changes)
            + " else " + member.column + " end"
            for member in self._written
        ])  # fmt: skip

    def partial(self, *names: str) -> TypeAdapter[Any]:
        """The type of bodies with these optional members, in their order.

        Patches that are checked as a whole use it. Raises `KeyError` for a member that is not declared.
        """
        attributes = {member.name: member.attribute for member in self._shown}
        members: dict[str, Any] = {}
        for name in names:
            info = self.model.model_fields[attributes[name]]
            members[attributes[name]] = (Annotated[cast("Any", info.annotation), info], None)
        return TypeAdapter(create_model(self.model.__name__, __base__=Body, **members))

    def changes(
        self, patch: Sequence[PatchStep], action: str, too_long: Mapping[str, ErrorCode] | None = None
    ) -> dict[str, Any]:
        """The changed members of a patch as JSON values, each validated by the member's type.

        A removed member gets its default. `too_long` has the error codes of texts with their own code. Raises
        `BadRequest`.
        """
        values = apply_patch(patch, action, self._required)
        maps = text_maps.changes_of(values, patch, action, lambda: _alone(self.model, text_maps.METADATA))
        for name, value in values.items():
            member = self.by_name[name]
            if value is None and not member.is_nullable and not member.is_required:
                values[name] = member.default
            elif member.is_checked_as_text and isinstance(value, str | None):
                _check_text(member, value, patch, action, too_long or {})
            elif value is not None or not member.is_nullable:
                self._check_value(member, value, patch, action)
        return values | maps

    def _check_value(self, member: Member, value: Any, patch: Sequence[PatchStep], action: str) -> None:
        validate_body(
            _alone(self.model, member.attribute), json.dumps({member.name: value}).encode(), action, patch=patch
        )

    @cached_property
    def descriptions(self) -> dict[str, tuple[str, Any]]:
        """Member -> OpenAPI description and example."""
        descriptions: dict[str, tuple[str, Any]] = {"id": self._id} if self._id else {}
        for member in self._shown:
            descriptions[member.name] = (member.info.description, member.info.example)
        return descriptions

    @cached_property
    def example(self) -> dict[str, Any]:
        """An example of the body of a new row."""
        return {member.name: member.info.example for member in self.members}

    @cached_property
    def exported(self) -> dict[LiteralString, tuple[LiteralString, LiteralString]]:
        """The members of an export, without the key: name in the API -> column and SQL type."""
        return {member.exported_name: (member.column, member.sql_type) for member in self.members if member.is_exported}

    @cached_property
    def recorded(self) -> dict[str, str]:
        """The members for triggers of the change log: name in the log -> SQL of the row `{r}`.

        The default of a required member is not recorded: rows of older releases have it, but their changes do not.
        """
        return {member.recorded_name: _recorded_sql(member) for member in self.members}

    @cached_property
    def personal(self) -> frozenset[str]:
        """The names of personal members in the change log."""
        return frozenset(member.recorded_name for member in self.members if member.info.is_personal)

    @cached_property
    def headings(self) -> dict[str, str]:
        """The columns of the command line: heading -> member."""
        listed = [member for member in self.in_forms if member.info.is_listed]
        return {"ID": "id"} | {member.info.label.upper(): member.name for member in listed}

    @cached_property
    def text_columns(self) -> tuple[LiteralString, ...]:
        """The columns of free text, which is stored in NFC."""
        return tuple([member.column for member in self.members if member.is_free_text])

    @cached_property
    def absent(self) -> dict[str, LiteralString]:
        """Member -> SQL of its default, for exports of older releases, which lack the member."""
        return {
            member.exported_name: sql_default(member)
            for member in self.members
            if member.is_exported and not member.is_nullable and not member.is_required
        }


def patch_paths(names: Iterable[str]) -> Any:
    """The type of `path` in a patch of these members: one of them. Type checkers see the annotated type.

    A map also has a path for each of its keys, such as `/metadata/plan`.
    """
    paths = [f"/{name}" for name in names]
    return GetPydanticSchema(lambda _source, _handler: text_maps.path_schema(paths))


def patch_value(model: type[Body]) -> Any:
    """The type of `value` in a patch of the model: one of the JSON types of its members, or null."""
    types = {_member(name, info, is_personal=False).type for name, info in model.model_fields.items()}
    union = cast("Any", AnyText)
    for type_, python in ((Type.BOOLEAN, bool), (Type.INT32, int), (Type.DOUBLE, float)):
        if type_ in types:
            union = cast("Any", union | python)
    union = union | None
    if Type.MAP in types:
        return GetPydanticSchema(lambda _source, handler: text_maps.value_schema(handler.generate_schema(union)))
    return GetPydanticSchema(lambda _source, handler: handler.generate_schema(union))


def _check_text(
    member: Member, value: str | None, patch: Sequence[PatchStep], action: str, too_long: Mapping[str, ErrorCode]
) -> None:
    if not member.is_nullable and is_blank(value):
        raise BadRequest(invalid_member(action, member.name), errors=[blank(at(patch, member.name))])
    if value is not None and member.max_length is not None and len(value) > member.max_length:
        hint = f"`{member.name}` must have at most {member.max_length} characters, but has {len(value)}."
        reason = too_long.get(member.name) or invalid_member(action, member.name, hint=hint)
        raise BadRequest(reason, errors=[FieldError("too-long", hint, at(patch, member.name))])


@cache
def _alone(model: type[Body], attribute: str) -> TypeAdapter[Any]:
    """The type of bodies with only this member of the model."""
    info = model.model_fields[attribute]
    members = cast("dict[str, Any]", {attribute: (Annotated[info.annotation, info], ...)})
    return TypeAdapter(create_model(model.__name__, __base__=Body, **members))


def _member(attribute: str, field: FieldInfo, *, is_personal: bool) -> Member:
    """The member of a model field. Raises `TypeError` without `MemberInfo`, or for a type without a column type."""
    info = next((item for item in field.metadata if isinstance(item, MemberInfo)), None)
    if info is None:
        raise TypeError(f"{attribute} has no MemberInfo(...) in its annotation")
    if is_personal:
        info = replace(info, is_personal=True)
    python, is_nullable, metadata = _resolved(field.annotation)
    metadata += field.metadata
    enum = _fixed_values(python, metadata)
    plain = str if enum else get_origin(python) or python
    if plain not in _TYPES:
        raise TypeError(f"{attribute} has the type {python}, which columns do not support")
    patterns = [getattr(item, "pattern", None) for item in metadata]
    lengths = [length for item in metadata if (length := getattr(item, "max_length", None)) is not None]
    return Member(
        attribute,
        _identifier(field.alias or attribute),
        info.column or _identifier(attribute),
        _TYPES[plain],
        is_nullable,
        field.default,
        lengths[0] if lengths else None,
        IN_NFC in metadata,
        any(pattern not in (None, FREE_TEXT, NOT_BLANK) for pattern in patterns),
        enum,
        info,
    )


@dataclass(frozen=True, slots=True)
class FixedValues:
    """The computed values of a text, which no `Literal` can name, as metadata of its type."""

    values: tuple[str, ...]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        return core_schema.literal_schema([*self.values])


def _fixed_values(python: Any, metadata: Sequence[Any]) -> tuple[str, ...]:
    """The fixed values of a text; empty for free text and other types."""
    if get_origin(python) is Literal:
        return get_args(python)
    return next((item.values for item in metadata if isinstance(item, FixedValues)), ())


def _resolved(annotation: Any) -> tuple[Any, bool, list[Any]]:
    """The Python type of an annotation, whether it is nullable, and its metadata."""
    metadata: list[Any] = []
    is_nullable = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *beside = get_args(annotation)
            for item in beside:
                metadata.extend(item.metadata if isinstance(item, FieldInfo) else [item])
        elif get_origin(annotation) in (Union, UnionType):
            is_nullable = True
            (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
        else:
            return annotation, is_nullable, metadata


def _identifier(name: str) -> LiteralString:
    """A declared name as SQL: an attribute of our own classes, never a client's text. Raises `ValueError`."""
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"not an identifier: {name!r}")
    return name  # pyright: ignore[reportReturnType] - checked above


def _recorded_sql(member: Member) -> str:
    column = "{r}." + member.column
    if member.is_nullable or member.is_required:
        return column
    return f"nullif({column}, {sql_default(member)})"


def sql_default(member: Member) -> LiteralString:
    """The default of a required member as an SQL constant. Raises `ValueError` for a text that needs escaping."""
    default = member.default
    if isinstance(default, bool):
        return "true" if default != member.info.is_inverted else "false"
    if isinstance(default, list):
        return "'{" + ",".join([_plain(member, item) for item in cast("list[object]", default)]) + "}'"
    return "'" + _plain(member, default) + "'" if isinstance(default, str) else _plain(member, default)


def _plain(member: Member, default: object) -> LiteralString:
    text = str(default)
    if not all(character.isalnum() or character in " ._-" for character in text):
        raise ValueError(f"{member.name}: the default {default!r} has characters other than letters, digits and ._-")
    checked: LiteralString = text  # pyright: ignore[reportAssignmentType] - checked above
    return checked
