"""Endpoints of the server itself: documents and health."""
