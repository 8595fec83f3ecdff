"""OData: text becomes a tree (`parse`), the tree a typed plan, the plan SQL with parameters (`query`)."""

from keyrack.api.odata.apply_sql import Source
from keyrack.api.odata.cursor import INVALID, NOT_SUPPORTED
from keyrack.api.odata.index_order import Lead
from keyrack.api.odata.keyset import Key, Segment, behind, place
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.parser import parse
from keyrack.api.odata.plan import COUNT
from keyrack.api.odata.query_string import OPTIONS, Beginning, Shape, beginning, query
from keyrack.api.odata.sql import TOO_MANY, TOO_MANY_EXPANDED
from keyrack.api.odata.statement import Query

__all__ = [
    "COUNT",
    "INVALID",
    "NOT_SUPPORTED",
    "OPTIONS",
    "TOO_MANY",
    "TOO_MANY_EXPANDED",
    "Beginning",
    "Key",
    "Lead",
    "Limits",
    "Query",
    "Segment",
    "Shape",
    "Source",
    "beginning",
    "behind",
    "parse",
    "place",
    "query",
]
