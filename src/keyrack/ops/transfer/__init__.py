"""Export of a customer to files, and import from files or from another server's API."""
