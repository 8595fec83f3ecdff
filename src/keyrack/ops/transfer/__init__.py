"""Export of a customer into files, import from files or from another server's API."""
