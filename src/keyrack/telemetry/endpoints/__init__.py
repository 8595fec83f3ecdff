"""Endpoints of ingest, positions and events."""
