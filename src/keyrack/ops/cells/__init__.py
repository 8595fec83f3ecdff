"""Cells: their addition, their sizes, and checks of all together."""
