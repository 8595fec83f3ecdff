"""In charge of parts of the process that are made of the settings alone: the documents, and the bounds of queries."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from keyrack.documents import errors, openapi, reference, refusals
from keyrack.endpoints import ALL
from keyrack.endpoints.documents import Documents
from keyrack.odata import Limits
from keyrack.settings import Settings


def documents(settings: Settings) -> Documents:
    """The documents, made when somebody asks for them first."""

    @cache
    def document() -> dict[str, Any]:
        return openapi.document(ALL, settings)

    return Documents(
        cache(lambda: json.dumps(document(), separators=(",", ":")).encode()),
        cache(lambda: reference.page(document()).encode()),
        cache(lambda: errors.page(refusals.codes(ALL), settings.public_url).encode()),
    )


def limits(settings: Settings) -> Limits:
    """The bounds of query options."""
    return Limits(
        nesting=settings.odata_nesting,
        nodes=settings.odata_nodes,
        items=settings.odata_items,
        orderby=settings.odata_orderby,
        select=settings.odata_select,
        top=settings.odata_top,
        digits=settings.odata_digits,
        expanded=settings.odata_expanded,
        transformations=settings.odata_transformations,
        properties=settings.odata_properties,
    )
