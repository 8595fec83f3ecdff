"""The members with which other systems recognise a resource: `externalId` and `metadata`.

Every resource that has them declares both with these types. The customer's other systems choose the values: Keyrack
stores, filters and returns them, and does not interpret them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from keyrack.api.schema.declaration import MemberInfo
from keyrack.api.schema.request_body import IN_NFC, METADATA
from keyrack.api.schema.text_maps import TextMap
from keyrack.core.text import N_, REFERENCE

EXTERNAL_ID = "externalId"
NAMES = (EXTERNAL_ID, METADATA)
LONGEST_EXTERNAL_ID = 128  # characters
ExternalIdText = Annotated[str, Field(min_length=1, max_length=LONGEST_EXTERNAL_ID, pattern=REFERENCE), IN_NFC]
EXTERNAL_ID_TYPE: TypeAdapter[str] = TypeAdapter(ExternalIdText)
METADATA_TYPE: TypeAdapter[dict[str, str]] = TypeAdapter(TextMap)
ExternalId = Annotated[
    ExternalIdText | None,
    MemberInfo(
        N_("External id"),
        N_("the external id"),
        "The id in another system, which the customer chooses. It is unique among the customer's resources of this"
        " type, and case-sensitive; null for none.",
        "V-1001",
        is_searchable=True,
        is_extension=True,
        is_listed=False,
        is_code=True,
    ),
]
Metadata = Annotated[
    TextMap | None,
    MemberInfo(
        N_("Metadata"),
        N_("the metadata"),
        "Up to 20 texts by key, which the customer chooses; null for none. A key has 1 to 40 letters, digits, `_`, `.`"
        " and `-`, a text up to 500 characters, and all together up to 4,096 bytes.",
        {"plan": "gold"},
        is_extension=True,
        is_listed=False,
    ),
]


def valid(row: Mapping[str, Any]) -> dict[str, Any]:
    """Both members of a row of another server.

    A member that is missing or has another form is None.
    """
    return {
        EXTERNAL_ID: _valid(EXTERNAL_ID_TYPE, row.get(EXTERNAL_ID)),
        METADATA: _valid(METADATA_TYPE, row.get(METADATA)),
    }


def _valid(adapter: TypeAdapter[Any], value: object) -> Any:
    try:
        return adapter.validate_python(value, strict=True) or None
    except ValidationError:
        return None
