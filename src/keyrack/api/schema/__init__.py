"""Schema of resources and fields, and the models of request bodies."""
