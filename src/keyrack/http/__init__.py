"""The HTTP edge: the request pipeline, connections, OpenAPI, the table of endpoints.

Entry: `app` for the server, `page_router` for the console, `openapi` for documents.
Must not: contain a rule of one resource. It is the only package that imports Falcon.
"""
