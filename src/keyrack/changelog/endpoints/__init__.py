"""Endpoints of the change feed, checkpoints, the access history and live updates."""
