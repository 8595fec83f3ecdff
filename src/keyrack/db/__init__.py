"""In charge of PostgreSQL: connections, notices, shared commits, partitions, and the schema's history."""
