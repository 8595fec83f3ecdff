"""The audit log: outbox, sequencer, feed, access history, retention, signed checkpoints.

Entry: `sequencer` for the worker, `feed` and `access_queries` for reads, `transparency` for proofs.
Must not: renumber a numbered change, or alter its record.
"""
