"""State of a key box for the car's page: its enrolment, and faults of its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyrack.console.product_names import kind
from keyrack.core.errors import Conflict, NotFound
from keyrack.http.page_router import Visit

REPORTS = 20  # of each kind, per enrolment, the newest first
HARMLESS = ("GivenUp", "Late")  # other kinds mean an attack, or a copy of the box
# The worst first
KINDS = ("UnknownKey", "UnknownList", "Fork", "Break", "Forgery", *HARMLESS)


@dataclass(frozen=True, slots=True)
class BoxLogReport:
    """Reports of one kind on the log of a box: their number, and the time of the last one."""

    kind: str
    count: int
    last: str


@dataclass(frozen=True, slots=True)
class BoxView:
    """A box: the time of its enrolment, None without one, and the faults of its log.

    `cut` means that there may be older reports.
    """

    enrolled: str | None
    troubles: Sequence[BoxLogReport] = ()
    missing: int = 0  # known entries of the log that have not arrived yet
    cut: bool = False
    pending: Mapping[str, Any] | None = None  # an enrolment that is not in force yet

    @property
    def is_bad(self) -> bool:
        """Whether there is a fault other than overwritten entries."""
        return any(trouble.kind not in HARMLESS for trouble in self.troubles)


async def box(visit: Visit, product: int) -> BoxView | None:
    """The state of a box; None if the product is not a box, or is gone."""
    try:
        state = (await visit.call("GET", "/boxes/{productId}/enrolment", product)).json
    except NotFound as refusal:
        return BoxView(None) if refusal.reason.code == "box-not-enrolled" else None
    except Conflict:  # a tracker
        return None
    log: Mapping[str, Any] = state["log"]
    troubles = _troubles(log["reports"])
    is_cut = any(count >= REPORTS for count in Counter(report["kind"] for report in log["reports"]).values())
    return BoxView(state["enrolled"], troubles, log["newest"] - log["upTo"], is_cut, state["pending"])


def _troubles(reports: Sequence[Mapping[str, Any]]) -> list[BoxLogReport]:
    counts = Counter[str]()
    for report in reports:
        counts[report["kind"]] += report["times"]
    last = {report["kind"]: report["reported"] for report in reversed(reports)}
    return [BoxLogReport(kind, counts[kind], last[kind]) for kind in KINDS if counts[kind]]


async def boxes_of(visit: Visit, products: Sequence[Mapping[str, Any]]) -> dict[int, BoxView]:
    """The state of the boxes among a car's products. A car has at most one product of each type."""
    views = {product["id"]: await box(visit, product["id"]) for product in products if kind(product) == "box"}
    return {id: view for id, view in views.items() if view is not None}


async def box_of(visit: Visit, car: int) -> BoxView | None:
    """The state of the box in a car; None if there is none."""
    query = {"$filter": f"car/id eq {car} and endswith(type,' Box')", "$select": "id,type", "$top": "1"}
    boxes = await boxes_of(visit, (await visit.call("GET", "/products", query=query)).json)
    return next(iter(boxes.values()), None)
