"""Cells: their addition, checks of all of them, and moves between them.

`moving` has the order of the steps of a move, by PostgreSQL's logical replication. Every step can be repeated. So a
move that was interrupted anywhere continues when it is started again.
"""
