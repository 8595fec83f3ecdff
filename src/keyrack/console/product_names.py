"""Names of key boxes and trackers. The API's type begins with the operator's brand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.console.rendering import gettext
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

KINDS = {"box": N_("Key box"), "unit": N_("Tracker")}


def kind(product: Mapping[str, Any]) -> str:
    """`box` or `unit`."""
    return "box" if product["type"].endswith(" Box") else "unit"


def named(visit: Visit, product: Mapping[str, Any]) -> str:
    """The name of a product, for example "Key box BX010001"."""
    return f"{gettext(visit, KINDS[kind(product)])} {product['serialNumber']}"
