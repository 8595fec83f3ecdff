"""In charge of how a row of the table becomes an endpoint."""
