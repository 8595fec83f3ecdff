"""OData: the text of a query becomes a tree (`parse`), the tree a typed plan, the plan SQL with parameters."""

from keyrack.odata.syntax import parse

__all__ = ["parse"]
