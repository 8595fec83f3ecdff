"""The parts that every endpoint is made of: the row, reads, OData, bodies, permissions, streams.

Entry: `endpoint` and `exchange` for handlers, `schema` for resources, `odata` for queries.
Must not: know one resource, or import an HTTP library.
"""
