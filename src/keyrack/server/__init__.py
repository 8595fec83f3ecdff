"""Processes: the HTTP server, the worker, and the supervisor of several processes.

Entry: `process`, `worker` and `supervisor`, from the commands `serve` and `work`.
Must not: load what only an answer needs: a worker has to start quickly and stay small.
"""
