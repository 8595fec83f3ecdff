"""The table of endpoints, from the served OpenAPI document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Schema = dict[str, Any]
METHODS = ("get", "put", "post", "patch", "delete")
APP = "/drive/"  # tests/drivers/app-contract.json has these rows: they need the session of a driver


@dataclass(frozen=True)
class Property:
    """A property of the rows of a list."""

    name: str
    types: frozenset[str]
    format: str
    relation: str  # "" for a plain property, otherwise "one" or "many"
    members: tuple[Property, ...] = ()  # members of an object


@dataclass(frozen=True)
class Row:
    """A row of the table of endpoints."""

    method: str
    path: str
    operation: Schema
    document: Document

    @property
    def name(self) -> str:
        """The method and the path: `GET /cars/{carId}`."""
        return f"{self.method} {self.path}"

    @property
    def tag(self) -> str:
        """The group of endpoints of the row."""
        return self.operation["tags"][0]

    @cached_property
    def schemes(self) -> set[str]:
        """The names of the security schemes that a caller needs."""
        return {name for choice in self.operation["security"] for name in choice}

    @cached_property
    def scopes(self) -> list[str]:
        """The permissions that a caller needs."""
        return [scope for choice in self.operation["security"] for scope in choice.get("oauth2", [])]

    @cached_property
    def parameters(self) -> dict[tuple[str, str], Schema]:
        """The parameters, by location and name."""
        resolved = [self.document.resolve(each) for each in self.operation.get("parameters", [])]
        return {(each["in"], each["name"]): each for each in resolved}

    @cached_property
    def ids(self) -> list[str]:
        """The names of the path parameters."""
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def is_of_customer(self) -> bool:
        """Whether the row needs the header `Customer-ID`."""
        return ("header", "Customer-ID") in self.parameters

    @property
    def takes_options(self) -> bool:
        """Whether the row is a list with OData options."""
        return self.method == "GET" and ("query", "$filter") in self.parameters

    @cached_property
    def body(self) -> Schema | None:
        """The schema of a JSON body."""
        content = self.operation.get("requestBody", {}).get("content", {})
        return self.document.resolve(content["application/json"]["schema"]) if "application/json" in content else None

    @property
    def takes_form(self) -> bool:
        """Whether the body is a form."""
        return "application/x-www-form-urlencoded" in self.operation.get("requestBody", {}).get("content", {})

    @cached_property
    def properties(self) -> list[Property]:
        """The properties of the rows of a list. A list of plain values has none."""
        content = self.operation["responses"]["200"]["content"]["application/json"]
        items = self.document.resolve(content["schema"])["items"]
        return self.document.properties(items)


class Document:
    """An OpenAPI document."""

    def __init__(self, content: Schema) -> None:
        self._content = content
        self.rows = [
            Row(method.upper(), path, operations[method], self)
            for path, operations in content["paths"].items()
            for method in METHODS
            if method in operations and not path.startswith(APP)
        ]

    def resolve(self, schema: Schema) -> Schema:
        """Resolve a reference. Other schemas are returned unchanged."""
        while "$ref" in schema:
            found: Any = self._content
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            schema = found
        return schema

    def properties(self, schema: Schema) -> list[Property]:
        """The properties of an object."""
        whole = self.resolve(schema)
        members, always = whole.get("properties", {}), whole.get("required", [])
        return [self._property(name, member, name in always) for name, member in members.items() if "@" not in name]

    def _property(self, name: str, schema: Schema, is_always_there: bool) -> Property:
        """A property. Those that `$expand` adds are relations."""
        choices = [self.resolve(each) for each in schema.get("anyOf", [schema])]
        kinds = [each.get("type", []) for each in choices]
        types = frozenset(kind for each in kinds for kind in ([each] if isinstance(each, str) else each))
        is_relation = not is_always_there and "$expand" in schema.get("description", "")
        relation = "" if not is_relation else ("many" if "array" in types else "one")
        is_object = not relation and "object" in types
        members = tuple(self.properties(choices[0])) if is_object else ()
        return Property(name, types, choices[0].get("format", ""), relation, members)
