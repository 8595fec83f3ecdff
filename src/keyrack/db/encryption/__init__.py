"""Encrypted columns: secrets that stay readable, under a key outside the database."""
