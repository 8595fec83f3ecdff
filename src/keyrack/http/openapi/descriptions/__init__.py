"""Descriptions and examples of properties, by subject."""
