"""Moves of customers and databases by PostgreSQL's logical replication.

`moving` has the order of the steps. Every step can be repeated, so a move that was interrupted anywhere continues when
it is started again.
"""
