"""Descriptions and examples of members, by subject."""
