"""Cells: how one is added, what each has, and whether they fit together."""
