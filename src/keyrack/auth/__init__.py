"""Authentication and authorisation: keys, tokens, sessions, roles, single sign-on, passkeys, mail.

Entry: `authenticator` for requests, `endpoints`, and `mail` for whatever is sent by e-mail.
Must not: decide about a resource: handlers ask `api.permissions` and the caller's grants.
"""
