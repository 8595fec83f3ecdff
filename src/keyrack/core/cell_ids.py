"""The range of ids of each cell. No two cells give the same id.

A cell gives ids of its own range to customers, managers, machine clients and persons. Each keeps its id when it moves
to another cell. So the range of an id is that of the cell that made the row, which may be in another one now.
"""

from __future__ import annotations

IDS_PER_CELL = 2**25
MOST_CELLS = 64  # with 2**25 ids each, the ids of all cells are a positive int32
_GREATEST_ID = 2**31 - 1


def id_range(number: int) -> range:
    """The ids that the cell with this number gives. Raises `ValueError` for a number outside of 0 to 63.

    >>> id_range(1)
    range(33554433, 67108865)
    """
    if not 0 <= number < MOST_CELLS:
        raise ValueError(f"the number of a cell is from 0 to {MOST_CELLS - 1}")
    first = number * IDS_PER_CELL + 1
    return range(first, min(first + IDS_PER_CELL - 1, _GREATEST_ID) + 1)


def cell_of_id(id: int) -> int:
    """The number of the cell that gave this id, which is positive.

    >>> cell_of_id(33_554_433)
    1
    """
    return (id - 1) // IDS_PER_CELL
