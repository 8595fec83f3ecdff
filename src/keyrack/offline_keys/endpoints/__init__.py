"""Endpoints of boxes, keys, status lists and phones."""
