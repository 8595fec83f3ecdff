"""OData: text is parsed into a tree (`parse`), then a typed plan, then SQL with parameters (`query`)."""

from keyrack.api.odata.cursor import INVALID, NOT_SUPPORTED
from keyrack.api.odata.index_order import FAR, IndexOrder
from keyrack.api.odata.keyset import KeysetColumn, Segment, SegmentSql, segments_after
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.parser import parse
from keyrack.api.odata.plan import COUNT
from keyrack.api.odata.query_string import (
    OPTIONS,
    FilterCursor,
    Shape,
    check_names,
    filter_cursor,
    option_name,
    query,
)
from keyrack.api.odata.sql import SKIP, TOO_MANY, TOO_MANY_EXPANDED, TOP
from keyrack.api.odata.statement import Query, QuerySql

__all__ = [
    "COUNT",
    "FAR",
    "INVALID",
    "NOT_SUPPORTED",
    "OPTIONS",
    "SKIP",
    "TOO_MANY",
    "TOO_MANY_EXPANDED",
    "TOP",
    "FilterCursor",
    "IndexOrder",
    "KeysetColumn",
    "Limits",
    "Query",
    "QuerySql",
    "Segment",
    "SegmentSql",
    "Shape",
    "check_names",
    "filter_cursor",
    "option_name",
    "parse",
    "query",
    "segments_after",
]
