"""In charge of JSON Schema: of the resources' rows, of the bodies' models, and of the errors that are no plain text."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from keyrack.api.endpoint import Read
from keyrack.model.fields import Complex, Field, Relation, Resource, Type
from keyrack.model.resources import PRODUCT_LISTED, RESOURCES
from keyrack.odata import COUNT
from keyrack.reasons import FAULTS

Json = dict[str, Any]

ERROR_SCHEMAS: dict[str, Json] = {
    "Unauthorized": {
        "type": "object",
        "required": ["statusCode", "message"],
        "properties": {
            "statusCode": {"const": 401},
            "message": {"type": "string"},
            "header": {"type": "string", "description": "Where the API key is expected, if that was refused."},
        },
    },
    "GrantRefused": {
        "type": "object",
        "required": ["error"],
        "description": "RFC 6749, section 5.2.",
        "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
    },
    "UnsupportedMediaType": {
        "type": "object",
        "required": ["type", "title", "status", "traceId"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"const": "Unsupported Media Type"},
            "status": {"const": "415"},
            "traceId": {"type": "string"},
            "detail": {"type": "string", "description": "Which header came how, and what is taken."},
        },
    },
    "TooManyRequests": {
        "type": "object",
        "required": ["status", "message"],
        "properties": {"status": {"const": "429"}, "message": {"type": "string"}},
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "traceId"],
        "description": "RFC 9457. What the code means, and what to do about it, is at the address in `type`.",
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string"},
            "code": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
            "errors": {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}},
            "traceId": {"type": "string"},
            "retryAfter": {"type": "integer", "minimum": 1, "description": "Seconds, as in `Retry-After`."},
            "error": {"type": "string", "description": "RFC 6749, section 5.2."},
            "error_description": {"type": "string"},
        },
    },
    "Fault": {
        "type": "object",
        "required": ["code", "detail"],
        "description": "One thing that is wrong with the request.",
        "properties": {
            "pointer": {"type": "string", "description": "JSON Pointer (RFC 6901) into the request's body."},
            "parameter": {"type": "string", "description": "The option of the query string."},
            "position": {
                "type": "integer",
                "minimum": 0,
                "description": "In the option's value, in characters from 0.",
            },
            "header": {"type": "string"},
            "code": {"enum": list(FAULTS)},
            "detail": {"type": "string"},
            "valid": {"type": "array", "description": "The values, or the names, that would have been right."},
        },
    },
    "Created": {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer", "format": "int32"}},
    },
}

_TYPES: dict[Type, Json] = {
    Type.INT32: {"type": "integer", "format": "int32"},
    Type.INT64: {"type": "integer", "format": "int64"},
    Type.DOUBLE: {"type": "number", "format": "double"},
    Type.STRING: {"type": "string"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.DATE_TIME: {"type": "string", "format": "date-time"},
    Type.WALL_CLOCK: {"type": "string", "description": "As it was sent: yyyy-MM-ddTHH:mm:ss, perhaps with an offset."},
    Type.GUID: {"type": "string", "format": "uuid"},
    Type.OPAQUE: {},
}


# A form of a resource with fewer members is a schema of its own
_FORMS: dict[Resource, str] = {form: name for name, form in RESOURCES.items()} | {PRODUCT_LISTED: "ProductListed"}


def rows(read: Read, schemas: dict[str, Json]) -> Json:
    """The schema of what a read answers; the row's own, and those of its relations, are put among `schemas`."""
    resource = read.select.resource
    if resource.scalar is not None:
        return {"type": "array", "items": {"type": "string"}}
    reference = _row(resource, schemas)
    return reference if read.select.one else {"type": "array", "items": reference}


def _row(resource: Resource, schemas: dict[str, Json]) -> Json:
    """A reference to the schema of one row."""
    name = _FORMS.get(resource, resource.name)
    if name not in schemas:
        properties: dict[str, Json] = {}
        schemas[name] = {"type": "object", "properties": properties}  # before its relations, which lead back to it
        properties |= {name: _field(f) for name, f in resource.fields.items()}
        for relation, found in resource.relations.items():
            properties |= _expandable(relation, found, schemas)
    return {"$ref": f"#/components/schemas/{name}"}


def _expandable(name: str, relation: Relation, schemas: dict[str, Json]) -> dict[str, Json]:
    """The members that `$expand` adds."""
    target = _row(RESOURCES[relation.target], schemas)
    if not relation.many:
        return {name: {"anyOf": [target, {"type": "null"}], "description": f"With `$expand={name}`."}}
    count = {**_TYPES[Type.INT64], "description": f"With `$expand={name}($count=true)` or `$expand={name}/$count`."}
    listed = {"type": "array", "items": target, "description": f"With `$expand={name}`."}
    return {name + COUNT: count, name: listed}


def _field(field: Field | Complex) -> Json:
    if isinstance(field, Complex):
        return {"type": "object", "properties": {name: _field(f) for name, f in field.fields.items()}}
    schema: Json = dict(_TYPES[field.type])
    if field.format is not None:  # shown as text
        schema = {"type": "string", "format": field.format}
    if field.enum:
        schema["enum"] = [*field.enum, None] if field.nullable else list(field.enum)
    if field.nullable and "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


def model(adapter: TypeAdapter[Any], schemas: dict[str, Json]) -> Json:
    """The schema of a Pydantic model; the named ones are put among `schemas`."""
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    title = schema.get("title")
    if title and schema.get("type") == "object":
        schemas[title] = schema
        return {"$ref": f"#/components/schemas/{title}"}
    return schema
