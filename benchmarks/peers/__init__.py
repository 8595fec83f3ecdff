"""Servers that a Python team would write for the same questions, in an environment of their own."""
