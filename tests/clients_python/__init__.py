"""The package `keyrack-client` against a real server."""
