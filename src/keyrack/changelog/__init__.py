"""The audit log: outbox, sequencer, feed, access history, retention, signed checkpoints.

Entry: `sequencer` for the worker, `feed` and `access_queries` for reads, `transparency` for proofs.
Must not: alter or renumber a change that has its number.
"""
