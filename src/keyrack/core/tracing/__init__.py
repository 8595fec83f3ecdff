"""Traces: which request, statement, operation and delivery belong together, exported to a collector."""
