"""A whole customer on its way: out into files, in from them, and in from any server that speaks the API."""
