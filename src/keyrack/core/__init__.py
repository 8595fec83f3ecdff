"""Settings, errors, logging, metrics, tracing, API client: the base of every package.

Entry: any module.
Must not: import another package of Keyrack, or open a database connection.
"""
