"""In charge of secrets that must stay readable: sealed in the database, under a key that is not in it."""
