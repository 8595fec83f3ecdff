"""Webhooks: subscriptions, the outbox, signing, delivery and replay.

Entry: `outbox` within the transaction that publishes, `delivery` for the worker, `endpoints`.
Must not: send anything inside a transaction, or to an address that `core.ssrf_guard` rejects.
"""
