"""JSON Schemas of resource rows and body models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import TypeAdapter

from keyrack.api.odata import COUNT
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.schema.fields import RESOURCES, Complex, Field, Relation, Resource, Type
from keyrack.api.schema.request_body import Kind
from keyrack.auth.declarations import SCOPE
from keyrack.changelog.schema import CHANGE
from keyrack.fleet.schema import PRODUCT_LISTED
from keyrack.http.openapi.member_schemas import Json, describe, subject
from keyrack.telemetry.samples import TroubleCode
from keyrack.webhooks.change_payload import ChangePayload, CheckpointPayload
from keyrack.webhooks.outcome_payload import OutcomePayload

_TYPES: dict[Type, Json] = {
    Type.INT32: {"type": "integer", "format": "int32"},
    Type.INT64: {"type": "integer", "format": "int64"},
    Type.DOUBLE: {"type": "number", "format": "double"},
    Type.STRING: {"type": "string"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.DATE_TIME: {"type": "string", "format": "date-time"},
    Type.WALL_CLOCK: {
        "type": "string",
        "description": ("A local time as it was sent: yyyy-MM-ddTHH:mm:ss, with an optional offset."),
    },
    Type.GUID: {"type": "string", "format": "uuid"},
    Type.OPAQUE: {},
    Type.MAP: {"type": "object", "additionalProperties": {"type": "string"}},
}


# A form of a resource with fewer properties has its own schema
_FORMS: dict[Resource, str] = {form: name for name, form in RESOURCES.items()} | {PRODUCT_LISTED: "ProductListed"}
# The type of an opaque property of a subject
_HELD: Mapping[tuple[str, str], TypeAdapter[Any]] = {
    ("Telemetry", "dtc"): TypeAdapter(list[TroubleCode]),
    ("Webhook", "kinds"): TypeAdapter(list[Kind]),
    ("MachineClient", "scopes"): TypeAdapter(list[Annotated[str, SCOPE]]),
    ("Delivery", "payload"): TypeAdapter(OutcomePayload | ChangePayload | CheckpointPayload),
}
# Properties of models that are rows
_ROWS: Mapping[tuple[str, str], Resource] = {("ChangeTold", "data"): CHANGE}
# The schema names of objects within a row
_PARTS: Mapping[str, str] = {
    "userData": "PersonName", "keyForm": "KeyForm", "actor": "Actor", "onBehalfOf": "Actor", "requestedBy": "Actor",
}  # fmt: skip


def rows(read: ReadEndpoint, schemas: dict[str, Json]) -> Json:
    """The schema of a read's response. Adds the schemas of the row and its relations to `schemas`."""
    resource = read.select.resource
    if resource.scalar is not None:
        return {"type": "array", "items": {"type": "string"}}
    reference = _row(resource, schemas)
    return reference if read.select.is_single else {"type": "array", "items": reference}


def _row(resource: Resource, schemas: dict[str, Json]) -> Json:
    """A reference to the schema of a row.

    All properties are required, except extensions and those that `$expand` adds.
    """
    name = _FORMS.get(resource, resource.name)
    if name not in schemas:
        properties: dict[str, Json] = {}
        # Added before its relations, which refer back to it
        required = [member for member, f in resource.fields.items() if isinstance(f, Complex) or not f.is_extension]
        schemas[name] = {"type": "object", "required": required, "properties": properties}
        properties |= {member: _member(name, member, f, schemas) for member, f in resource.fields.items()}
        for relation, target in resource.relations.items():
            properties |= _expandable(relation, target, schemas)
    return _reference(name)


def _expandable(name: str, relation: Relation, schemas: dict[str, Json]) -> dict[str, Json]:
    """The properties that `$expand` adds."""
    target = _row(RESOURCES[relation.target], schemas)
    if not relation.is_collection:
        return {name: {"anyOf": [target, {"type": "null"}], "description": f"With `$expand={name}`."}}
    count = {**_TYPES[Type.INT64], "description": f"With `$expand={name}($count=true)` or `$expand={name}/$count`."}
    listed = {"type": "array", "items": target, "description": f"With `$expand={name}`."}
    return {name + COUNT: count, name: listed}


def _member(name: str, member: str, field: Field | Complex, schemas: dict[str, Json]) -> Json:
    if isinstance(field, Complex):
        part = _PARTS[member]
        members = {inner: describe(part, inner, _field(f), schemas) for inner, f in field.fields.items()}
        schemas[part] = {"type": "object", "required": list(members), "properties": members}
        shown = _reference(part) if field.is_present is None else {"anyOf": [_reference(part), {"type": "null"}]}
        return describe(name, member, shown, schemas)
    declared = _HELD.get((subject(name), member))
    return describe(name, member, _field(field) if declared is None else model(declared, schemas), schemas)


def _field(field: Field) -> Json:
    schema: Json = dict(_TYPES[field.type])
    if field.format is not None:  # returned as a string
        schema = {"type": "string", "format": field.format}
    if field.enum:
        schema["enum"] = [*field.enum, None] if field.nullable else list(field.enum)
    if field.nullable and "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


def model(adapter: TypeAdapter[Any], schemas: dict[str, Json]) -> Json:
    """The schema of a Pydantic model. Adds named schemas to `schemas`.

    Generated clients use these names. A class whose name differs from its schema states the schema's name as the title
    in its `model_config`.
    """
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
    definitions: dict[str, Json] = schema.pop("$defs", {})
    names = {_reference(key)["$ref"]: inner.get("title", key) for key, inner in definitions.items()}
    schema = _renamed(schema, names)
    for key, inner in definitions.items():
        _add(inner.get("title", key), _renamed(inner, names), schemas)
    title = schema.get("title")
    if title and schema.get("type") == "object":
        return _add(title, schema, schemas)
    if "discriminator" in schema:
        schemas["Batch"] = schema
        return _reference("Batch")
    return schema


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """The schema with each reference replaced by its name in `names`, also in the mapping of a discriminator."""
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema)
        return {key: _renamed(value, names) for key, value in members.items()}
    if isinstance(schema, list):
        return [_renamed(item, names) for item in cast("list[Any]", schema)]
    if isinstance(schema, str) and schema in names:
        return _reference(names[schema])["$ref"]
    return schema


def _add(name: str, schema: Json, schemas: dict[str, Json]) -> Json:
    """Add a model with described properties, or an enumeration, to `schemas`. Returns its reference."""
    if "enum" in schema:
        schemas[name] = schema
        return _reference(name)
    members: Json = dict(schema.get("properties", {}))
    members |= {key: _row(row, schemas) for (model, key), row in _ROWS.items() if model == name}
    schemas[name] = schema | {
        "properties": {key: describe(name, key, value, schemas) for key, value in members.items()}
    }
    return _reference(name)


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
