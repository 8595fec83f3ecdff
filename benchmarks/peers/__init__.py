"""Peers: servers that a Python team would write, in a separate environment."""
