"""Services that depend only on the settings: documents, and limits of queries."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from keyrack.api.odata import Limits
from keyrack.core.settings import Settings
from keyrack.http.endpoints.documents import Documents
from keyrack.http.openapi import document, error_catalog, error_reference, reference_page
from keyrack.http.openapi.webhooks import message_example
from keyrack.http.routes import ALL


def documents(settings: Settings) -> Documents:
    """The documents, generated at their first use."""

    @cache
    def openapi() -> dict[str, Any]:
        return document.document(ALL, settings)

    return Documents(
        cache(lambda: json.dumps(openapi(), separators=(",", ":")).encode()),
        cache(lambda: reference_page.page(openapi()).encode()),
        cache(lambda: error_reference.page(error_catalog.codes(ALL), settings.public_url).encode()),
        tuple(endpoint.doc.operation_id for endpoint in ALL if endpoint.doc.is_preview),
        lambda type: message_example(openapi(), type),
    )


def limits(settings: Settings) -> Limits:
    """The limits of query options."""
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
