"""In charge of what is known of a box beside its list: whether it takes keys without a network, and what is wrong with
its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyrack.console.product_names import kind
from keyrack.core.errors import Conflict, NotFound
from keyrack.http.page_router import Visit

REPORTS = 20  # of one kind that a box's enrolment has at most, the newest first
HARMLESS = ("GivenUp", "Late")  # the other kinds mean an attack, or a copy of the box
# The worst first
KINDS = ("UnknownKey", "UnknownList", "Fork", "Break", "Forgery", *HARMLESS)


@dataclass(frozen=True, slots=True)
class BoxLogReport:
    """Reports of one kind on the log of a box: how many, and when the last one came."""

    kind: str
    count: int
    last: str


@dataclass(frozen=True, slots=True)
class BoxView:
    """A box: since when it is enrolled, None where it is not; and what is wrong with its log. `cut` says that there may
    be older reports."""

    enrolled: str | None
    troubles: Sequence[BoxLogReport] = ()
    missing: int = 0  # entries that are known to be, and have not come home yet
    cut: bool = False
    pending: Mapping[str, Any] | None = None  # an enrolment that is not in force yet

    @property
    def is_bad(self) -> bool:
        """Whether more is wrong than that the log ran over."""
        return any(trouble.kind not in HARMLESS for trouble in self.troubles)


async def box(visit: Visit, product: int) -> BoxView | None:
    """How a box stands; None where the product is none, or is gone."""
    try:
        state = (await visit.call("GET", "/boxes/{productId}/enrolment", product)).json
    except NotFound as refusal:
        return BoxView(None) if refusal.reason.code == "box-not-enrolled" else None
    except Conflict:  # a unit
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
    """How the boxes among a car's products stand: a car has one of each type."""
    views = {product["id"]: await box(visit, product["id"]) for product in products if kind(product) == "box"}
    return {id: view for id, view in views.items() if view is not None}


async def box_of(visit: Visit, car: int) -> BoxView | None:
    """How the box in a car stands; None where there is none."""
    query = {"$filter": f"car/id eq {car} and endswith(type,' Box')", "$select": "id,type", "$top": "1"}
    boxes = await boxes_of(visit, (await visit.call("GET", "/products", query=query)).json)
    return next(iter(boxes.values()), None)
