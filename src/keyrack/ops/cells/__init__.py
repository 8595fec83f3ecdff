"""Cells: how one is added, what each has, whether they fit together, and moves between them.

`moving` has the order of the steps of a move, by PostgreSQL's logical replication. Every step can be repeated, so a move
that was interrupted anywhere continues when it is started again.
"""
