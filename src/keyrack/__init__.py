"""Keyrack: the open, self-hosted server for who may open which vehicle, when."""

__version__ = "0.4.0"
