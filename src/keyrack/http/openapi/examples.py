"""Examples of requests and responses, generated from the examples of properties.

Tables have the examples that cannot be generated, such as patches, or bodies with alternatives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import JSON, PLAIN_TEXT, PROBLEM
from keyrack.fleet.declarations import CARS
from keyrack.http.openapi.descriptions.fleet import OPERATION_ID, meaning
from keyrack.http.openapi.member_schemas import Json, subject

# Bodies of requests, by operation
REQUESTS: Mapping[str, Any] = {
    "createCar": CARS.example,
    "updateCar": [{"op": "replace", "path": "/name", "value": "Pool 2"}, {"op": "remove", "path": "/description"}],
    "createUser": {"emailAddress": "sam.doe@example.com", "userData": {"firstName": "Sam", "lastName": "Doe"}},
    "updateUser": [
        {"op": "replace", "path": "/externalId", "value": "E-4711"},
        {"op": "replace", "path": "/metadata/costCenter", "value": "310"},
    ],
    "updateProduct": [{"op": "replace", "path": "/externalId", "value": "BX-4711"}],
    "updateGroup": [{"op": "replace", "path": "/name", "value": "North 2"}],
    "addUserToCustomer": {"emailAddress": "sam.doe@example.com"},
    "removeUserFromCustomer": {"userId": 9},
    "createAssignment": {"carId": 4, "userId": 9, "start": "2030-05-01T08:00:00Z", "end": "2030-05-08T08:00:00Z"},
    "updateAssignment": [
        {"op": "replace", "path": "/end", "value": "2030-06-01T08:00:00Z"},
        {"op": "remove", "path": "/lifetime"},
    ],
    "installProduct": {"carId": 4, "serialNumber": "BX-1"},
    "uninstallProduct": {"carId": 4, "productId": 3},
    "pairService": {"serviceId": 5, "serialNumber": "BX-1"},
    "unpairService": {"serviceId": 5, "productId": 3},
    "deliverTelemetry": [
        {
            "serialNumber": "IQ-1",
            "carDataReadTime": "2026-05-01T10:00:10Z",
            "currentLatitude": 52.52,
            "currentLongitude": 13.405,
            "odometer": 48210.5,
            "isDriving": True,
        }
    ],
    "runBatch": {
        "kind": "cars",
        "items": [
            {"op": "create", "body": {"name": "Pool 3"}},
            {"op": "change", "id": 4, "patch": [{"op": "replace", "path": "/name", "value": "Pool 2"}]},
        ],
    },
    "createWebhook": {
        "url": "https://example.org/keyrack",
        "kinds": ["assignment.created", "car.*"],
        "dialect": "keyrack",
        "secret": "optional-static-text",
        "name": "Booking software",
        "enabled": True,
    },
    "testWebhook": {"type": "assignment.created", "set": {"carId": 7}},
    "replayDeliveries": {"from": "2026-05-01T08:00:00Z", "to": "2026-05-01T18:00:00Z"},
}
# Responses, by operation
ANSWERS: Mapping[str, Any] = {
    "createGroup": {"id": 2},
    "createEvent": {"id": 121},
    "testWebhook": {"id": 42},
    "runBatch": {"done": 2, "refused": 0, "results": [{"status": 201, "id": 5}, {"status": 204}]},
    "deliverTelemetry": {"accepted": 1, "duplicates": 0, "refused": []},
    "deliverEvents": {"accepted": 1, "duplicates": 0, "refused": [], "events": [{"line": 1, "id": 121}]},
    "listBrands": ["Demo"],
}
# Responses that are not JSON
TEXTS: Mapping[str, str] = {
    "getKeyFormDrawing": '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 60"></svg>',
    "streamChanges": "id: 1-12\nevent: cars\ndata: cars\n\n",
    "listChanges": 'id: 5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55:1\nevent: change\ndata: {"id":1}\n\n',
    "getCheckpoint": "keyrack.example.com/changes/3/5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55\n5\n...",
    "getStatusList": "...",
    "getReference": "<!doctype html>",
    "getCodes": "<!doctype html>",
}
# Their responses are operations, whose kinds have the same names
SUBMITTING = ("createAssignment", "updateAssignment", "deleteAssignment")
# A pending operation
PENDING: Mapping[str, Any] = {"state": "Pending", "applied": None, "finished": None}
PLACE = re.compile(r"\{(\w+)\}")
# Placeholders in error messages
FILLED: Mapping[str, object] = {"seconds": 6, "most": 10, "oldest": 1, "newest": 4711, "epoch": OPERATION_ID}
ANY_STRING = "?"  # for a string without an example
_PLAIN = PLAIN_TEXT.split(";")[0]
TRACE = OPERATION_ID.replace("-", "")


def add(operation: Json, schemas: Mapping[str, Json]) -> None:
    """Add examples to the operation's request and its successful responses."""
    name = operation["operationId"]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        if media_type == "application/x-ndjson":
            content["example"] = json.dumps(REQUESTS.get(name, [schemas_example("OfflineEvent", schemas)])[0]) + "\n"
        else:
            content["example"] = REQUESTS.get(name) or example(content["schema"], schemas, whole=True)
    for status, response in operation["responses"].items():
        for media_type, content in response.get("content", {}).items() if status.startswith("2") else ():
            registered = ANSWERS.get(name) if media_type == JSON else TEXTS[name]
            content["example"] = example(content["schema"], schemas) if registered is None else registered
            if name in SUBMITTING:
                content["example"] |= {"kind": name[:1].upper() + name[1:]}
            if status == "202" and name != "runBatch":
                content["example"] |= PENDING


def refusal(status: int, reasons: Iterable[ErrorCode], public_url: str) -> dict[str, Any]:
    """Examples of an error, as text and as a problem, preferably of one without placeholders."""
    several = [(error, set(PLACE.findall(error.text))) for error in reasons]
    reason = next((error for error, places in several if not places), None)
    reason = reason or next((error.format(**FILLED) for error, places in several if places <= set(FILLED)), None)
    if reason is None:
        return {}
    problem = {
        "type": f"{public_url}/docs/errors#{reason.code}",
        "title": reason.title,
        "status": status,
        "detail": reason.text,
        "code": reason.code,
        **({} if reason.previous is None else {"previousCode": reason.previous}),
        "traceId": TRACE,
    }
    return {_PLAIN: reason.text, PROBLEM: problem}


def schemas_example(name: str, schemas: Mapping[str, Json], *, whole: bool = False) -> Any:
    """An example of a named schema: with all properties if `whole`, else with the required ones."""
    schema = schemas[name]
    if "properties" not in schema:
        return example(schema, schemas, whole=whole)
    required = schema.get("required", ())
    return {
        member: _member(name, member, inner, schemas, whole=whole)
        for member, inner in schema["properties"].items()
        if whole or member in required
    }


def _member(name: str, member: str, schema: Json, schemas: Mapping[str, Json], *, whole: bool) -> Any:
    """The property's own example, or one from its schema."""
    description = meaning(subject(name), member)
    if description is not None and (description.example is not None or _is_nullable(schema)):
        return description.example
    return example(schema, schemas, whole=whole)


def example(schema: Json, schemas: Mapping[str, Json], *, whole: bool = False) -> Any:
    """A value that the schema allows."""
    match schema:
        case {"examples": [first, *_]}:
            return first
        case {"const": value}:
            return value
        case {"enum": [value, *_]}:
            return value
        case {"$ref": str(reference)}:
            return schemas_example(reference.rpartition("/")[2], schemas, whole=whole)
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]}:
            return example(first, schemas, whole=whole)
        case {"type": "array", "items": items}:
            return [example(items, schemas, whole=whole)]
        case {"type": "object", "additionalProperties": dict()}:
            return {"odometer": example(cast("Json", schema["additionalProperties"]), schemas, whole=whole)}
        case {"type": "integer"}:
            return 4
        case _:
            return {} if schema.get("type") == "object" else ANY_STRING


def _is_nullable(schema: Json) -> bool:
    return "null" in (schema.get("type") or ()) or {"type": "null"} in schema.get("anyOf", ())
