"""Cars, users, groups, products, services and installations: their schema, endpoints and rules.

Entry: `schema` for the resources, `endpoints`, `person_erasure`, `global_erasure` and `person_export`.
Must not: change an assignment directly: it submits an operation to `assignments`.
"""
