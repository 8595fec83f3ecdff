"""Endpoints of webhooks and event types."""
