"""In charge of documents made from the table: OpenAPI, the reference page, the tables of docs/."""
