"""Documents that are generated from the table of endpoints: OpenAPI, the reference page, tables of docs/."""
