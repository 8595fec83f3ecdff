"""Backups of the embedded database: base backups, WAL archive, verification, restore."""
