"""Keyrack: the open, self-hosted server for who may open which vehicle, when."""
