"""OData: text becomes a tree (`parse`), the tree a typed plan, the plan SQL with parameters (`query`)."""

from keyrack.odata.binding import Limits
from keyrack.odata.query_string import OPTIONS, Query, Shape, query
from keyrack.odata.syntax import parse

__all__ = ["OPTIONS", "Limits", "Query", "Shape", "parse", "query"]
