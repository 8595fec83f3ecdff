"""Endpoints of sign-in, tokens, managers, machine clients, second factors and passkeys."""
