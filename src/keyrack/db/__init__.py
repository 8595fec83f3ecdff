"""PostgreSQL: connections, transactions, migrations, replication, encryption, the embedded server.

Entry: `connection` for statements, `transaction_database`, `change_notifier`, `row_batches`, and the sub-packages.
Must not: know a resource, an endpoint or HTTP.
"""
