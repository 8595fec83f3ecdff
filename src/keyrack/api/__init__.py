"""The common parts of endpoints: rows, reads, OData, bodies, permissions, streams.

Entry: `endpoint` and `exchange` for handlers, `schema` for resources, `odata` for queries.
Must not: know a specific resource, or import an HTTP library.
"""
