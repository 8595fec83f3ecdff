"""Endpoints of assignments, batches and operations."""
