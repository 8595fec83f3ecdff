"""The lists of key boxes and trackers, and of services."""

from __future__ import annotations

from keyrack.api.permissions import Permission
from keyrack.console.lists.actions import add_to_group
from keyrack.console.lists.definition import EmptyList, List, ListColumn, Row
from keyrack.console.lists.filters import FilterOption, OneOf
from keyrack.console.lists.shared_columns import NOT_SHOWN, car_link, changes_of, service_state
from keyrack.console.product_names import KINDS, kind
from keyrack.core.text import N_

BOXES = List(
    path="/{customer}/boxes",
    rows="/products",
    section="boxes",
    title=N_("Key boxes"),
    lead=N_("Key boxes and trackers, with the car and the service of each."),
    search=N_("Search key boxes"),
    columns=(
        ListColumn("serial", N_("Serial number"), lambda row: row["serialNumber"], sort="naturalorder(serialNumber)"),
        ListColumn(
            "type",
            N_("Type"),
            kind,
            "word",
            sort="type",
            priority=2,
            words={name: ("", word) for name, word in KINDS.items()},
        ),
        ListColumn(
            "car",
            N_("Car"),
            lambda row: car_link(row["car"]),
            "links",
            sort="naturalorder(car/name)",
            expand="car($select=id,name)",
        ),
        ListColumn(
            "service",
            N_("Service"),
            lambda row: row["service"] and row["service"]["name"],
            sort="naturalorder(service/name)",
            expand="service($expand=contract($select=end))",
            priority=2,
        ),
        ListColumn(
            "state",
            N_("State of the service"),
            lambda row: service_state(row["service"]),
            "status",
            expand="service($expand=contract($select=end))",
            priority=3,
            words={
                "none": ("warn", N_("No service")),
                "ended": ("bad", N_("Ended")),
                "works": ("good", N_("Active")),
            },
            scoped_words=NOT_SHOWN,
        ),
        ListColumn(
            "contract",
            N_("Contract ends"),
            lambda row: _contract_end(row["service"]),
            "date",
            sort="service/contract/end",
            expand="service($expand=contract($select=end))",
            priority=3,
        ),
        ListColumn(
            "unique",
            N_("Unique number"),
            lambda row: row["uniqueId"],
            "code",
            sort="uniqueId",
            priority=3,
            is_default=False,
        ),
        ListColumn(
            "sap",
            N_("SAP number"),
            lambda row: row["sapNumber"],
            "code",
            sort="sapNumber",
            priority=3,
            is_default=False,
        ),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
        changes_of("product"),
    ),
    filters=(
        OneOf(
            "type",
            N_("Type"),
            (
                FilterOption("box", N_("Key box"), "endswith(type,' Box')"),
                FilterOption("unit", N_("Tracker"), "endswith(type,' IQ')"),
            ),
        ),
        OneOf(
            "service",
            N_("Service"),
            (
                FilterOption("none", N_("No service"), "service/id eq null"),
                FilterOption("ended", N_("Ended"), "service/isTerminated eq true"),
                FilterOption("works", N_("Active"), "service/isTerminated eq false"),
            ),
        ),
        OneOf(
            "car",
            N_("Built in"),
            (
                FilterOption("yes", N_("Yes"), "car/id ne null"),
                FilterOption("no", N_("No"), "car/id eq null"),
            ),
        ),
    ),
    order="serial",
    topics="products services cars",
    permission=Permission.PRODUCTS_READ,
    actions=(
        add_to_group(
            "/groups/{groupId}/products",
            "productId",
            N_("Add %(num)s key box to a group"),
            N_("Add %(num)s key boxes to a group"),
        ),
    ),
    never=EmptyList(
        N_("No key boxes yet"),
        N_("A key box keeps the key in a car. The operator of this server adds key boxes with keyrack product add."),
    ),
)


def _contract_end(service: Row | None) -> str | None:
    contract = service and service["contract"]
    return contract["end"] if contract else None


SERVICES = List(
    path="/{customer}/services",
    rows="/services",
    section="services",
    title=N_("Services"),
    lead=N_("Services of key boxes and trackers, with their contracts."),
    search=N_("Search services"),
    columns=(
        ListColumn("name", N_("Name"), lambda row: row["name"], sort="naturalorder(name)"),
        ListColumn(
            "box",
            N_("Key box"),
            lambda row: row["product"] and row["product"]["serialNumber"],
            sort="naturalorder(product/serialNumber)",
            expand="product($select=serialNumber)",
        ),
        ListColumn(
            "state",
            N_("State"),
            lambda row: str(row["isTerminated"]),
            "status",
            sort="isTerminated",
            words={"False": ("good", N_("Active")), "True": ("bad", N_("Ended"))},
            priority=2,
        ),
        ListColumn(
            "ended", N_("Ended at"), lambda row: row["terminationDate"], "time", sort="terminationDate", priority=3
        ),
        ListColumn(
            "cause", N_("Reason of the end"), lambda row: row["terminationCause"], sort="terminationCause", priority=3
        ),
        ListColumn(
            "contract",
            N_("Contract ends"),
            lambda row: row["contract"] and row["contract"]["end"],
            "date",
            sort="contract/end",
            expand="contract($select=end,orderNumber)",
            priority=2,
        ),
        ListColumn(
            "ordered",
            N_("Order"),
            lambda row: row["contract"] and row["contract"]["orderNumber"],
            "code",
            sort="contract/orderNumber",
            expand="contract($select=end,orderNumber)",
            priority=3,
            is_default=False,
        ),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
        changes_of("service"),
    ),
    filters=(
        OneOf(
            "state",
            N_("State"),
            (
                FilterOption("works", N_("Active"), "isTerminated eq false"),
                FilterOption("ended", N_("Ended"), "isTerminated eq true"),
            ),
        ),
        OneOf(
            "contract",
            N_("Contract"),
            (
                FilterOption(
                    "soon",
                    N_("Ends within 30 days"),
                    "isTerminated eq false and contract/end ge {now} and contract/end lt {ago}",
                    -30,
                ),
                FilterOption("over", N_("Expired"), "isTerminated eq false and contract/end lt {now}"),
            ),
        ),
        OneOf(
            "box",
            N_("Key box"),
            (
                FilterOption("yes", N_("With a box"), "productId ne null"),
                FilterOption("no", N_("Without a box"), "productId eq null"),
            ),
        ),
    ),
    order="name",
    topics="services products",
    permission=Permission.SERVICES_READ,
    actions=(
        add_to_group(
            "/groups/{groupId}/services",
            "serviceId",
            N_("Add %(num)s service to a group"),
            N_("Add %(num)s services to a group"),
        ),
    ),
    never=EmptyList(
        N_("No services yet"),
        N_("A key box needs a service to work. The operator of this server adds services with keyrack service add."),
    ),
)
