"""Operation ids and descriptions of endpoints."""
