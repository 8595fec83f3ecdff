"""OData: text becomes a tree (`parse`), the tree a typed plan, the plan SQL with parameters (`query`)."""

from keyrack.odata.cursor import INVALID, NOT_SUPPORTED
from keyrack.odata.limits import Limits
from keyrack.odata.newest import Lead
from keyrack.odata.plan import COUNT
from keyrack.odata.query_string import OPTIONS, Beginning, Shape, beginning, query
from keyrack.odata.sql import TOO_MANY, TOO_MANY_EXPANDED
from keyrack.odata.stages import Source
from keyrack.odata.statement import Query
from keyrack.odata.syntax import parse
from keyrack.odata.walking import Key, Segment, behind, place

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
