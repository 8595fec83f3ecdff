"""The directory of customers: which customers this database serves.

The directory is the table `customer` itself. A move to another cell inserts the customer's row in the target, and then
deletes it in the source. So a moved customer is unknown in the source, although most of its rows are still there.

Between these two transactions both cells have the row. Then the target alone accepts writes, and the source answers
them with 503.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Statements

CUSTOMERS_HERE: LiteralString = "select customer_id from customer"


async def customers_here(statements: Statements) -> set[int]:
    """The ids of the customers that this cell serves."""
    return {row["customer_id"] for row in await statements.fetch(CUSTOMERS_HERE)}
