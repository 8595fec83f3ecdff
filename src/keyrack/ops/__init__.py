"""Operation of a server: backups, restore, doctor, monitoring, housekeeping, export and import.

Entry: the sub-packages, and `housekeeping` for the worker.
Must not: know HTTP requests: a command or the worker calls it.
"""
