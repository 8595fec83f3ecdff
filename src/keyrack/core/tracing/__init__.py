"""In charge of traces: which request, statement, operation and delivery belong together, told to a collector."""
