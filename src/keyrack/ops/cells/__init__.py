"""Cells: their addition, checks of all of them, and moves between them.

`customer_move` has the order of the steps of a move, by PostgreSQL's logical replication. Every step can be repeated,
so that an interrupted move continues when it is started again.
"""
