"""SQL of the moment until which a box may accept a key.

See docs/keys.md, "How long a revoked key opens".

`{t}` is the row of `box_key`, and `{t}_e` its epoch, which `WITH_EPOCH` joins.
"""

from __future__ import annotations

from typing import LiteralString

WITH_EPOCH: LiteralString = "box_key {t} left join box_epoch {t}_e using (customer_id, product_id, epoch)"
# The tolerance is included, a slow clock of the box is not
TOLERANCE: LiteralString = "interval '300 seconds'"
_LIMIT: LiteralString = "make_interval(secs => {t}.freshness)"
# The box claims the first list that shows the revocation, or a later one. A list later than the server's newest one
# does not count: a thief of an issuing key can sign lists of the future
IS_KNOWN_TO_BOX: LiteralString = (
    "(({t}_e.held_generation = {t}.generation and {t}_e.held_at between {t}.shown_at and (select g.listed_at"
    " from status_generation g where g.customer_id = {t}.customer_id and g.product_id = {t}.product_id"
    " and g.epoch = {t}.epoch and g.generation = {t}.generation)) is true)"
)
OPENS_UNTIL: LiteralString = (
    "case when " + IS_KNOWN_TO_BOX + " then {t}_e.held_at when {t}.revoked_at is null then {t}.expires_at + "
    + TOLERANCE + " else least({t}.expires_at, greatest({t}.issued_at, {t}.revoked_at) + " + _LIMIT + ") + "
    + TOLERANCE + " end"
)  # fmt: skip
# The key opens while the clock is uncertain. A clock without power stops, so it is slow by the whole outage
CAN_POWER_LOSS_EXTEND: LiteralString = "(3 = any({t}.rights) and not " + IS_KNOWN_TO_BOX + ")"
