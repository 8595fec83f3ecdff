"""Servers that a Python team would write for the same queries, in a separate environment."""
