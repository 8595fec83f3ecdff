"""The members of customers, cars, groups, products, services, contracts and users, each declared once.

`api.schema.declaration` describes what is derived from a declaration. docs/data-model.md, "Add a member", lists the
other steps.

Exports have the members of a customer in their manifest. A new one is also added to `manifest.py`, `export_files.py`
and `import_files.py` of `ops/transfer`. The retention of a customer is in `fleet/endpoints/retention.py`.

Brands and keys are not declared. They belong to the installation: no customer creates or exports one, or sees its
changes. A declaration would only give the property and its description, and labels that no page shows. The facts are in
`fleet/schema.py`, `http/openapi/descriptions/fleet.py`, `changelog/column_decisions.py`, `ops/text_normal_form.py` and
`cli/commands/brand.py`, which writes a key and its form in one statement.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from keyrack.api.schema.declaration import MemberInfo, ResourceTable
from keyrack.api.schema.references import ExternalId, Metadata
from keyrack.api.schema.request_body import Body, EmailAddress, LongText, Name, Text
from keyrack.core.text import N_


class CustomerRow(Body):
    """The members of a customer (spec, "Customer"). Operators create customers."""

    name: Annotated[
        Text,
        MemberInfo(N_("Name"), N_("the name"), "The name of the customer.", "Example Fleet", is_searchable=True),
    ]


CUSTOMERS = ResourceTable(
    "Customer",
    "customer",
    CustomerRow,
    key="customer_id",
    id=("The id of the customer as a string. The header `Customer-ID` takes the same value.", "1"),
)


# The members of a car, which are also the body of a new one (spec, "Car"). A docstring would become an OpenAPI text
class NewCar(Body):
    name: Annotated[
        Name,
        MemberInfo(
            N_("Name"),
            N_("the name"),
            "The name of the car. It need not be unique.",
            "Pool 1",
            is_searchable=True,
            has_natural_order=True,
        ),
    ]
    description: Annotated[
        LongText | None,
        MemberInfo(
            N_("Description"),
            N_("the description"),
            "Notes about the car.",
            "Parking deck 2",
            is_searchable=True,
            is_listed=False,
        ),
    ] = None
    vin: Annotated[
        Text | None,
        MemberInfo(
            N_("VIN"),
            N_("the VIN"),
            "The vehicle identification number. It is not validated and need not be unique.",
            "WVWZZZ1KZ6W000001",
            is_searchable=True,
            is_code=True,
        ),
    ] = None
    license_plate: Annotated[
        Text | None,
        MemberInfo(
            N_("License plate"),
            N_("the license plate"),
            "The registration number as on the plate.",
            "B-KR 1001",
            is_searchable=True,
        ),
    ] = None
    brand: Annotated[
        Text | None,
        MemberInfo(
            N_("Brand"),
            N_("the brand"),
            "The make of the car. `GET /brands` lists the brands with known keys; any other is also valid.",
            "Demo",
            hint=N_("Choose a brand, or type another one."),
            is_searchable=True,
        ),
    ] = None
    model: Annotated[
        Text | None,
        MemberInfo(N_("Model"), N_("the model"), "The model of the car.", "Compact", is_searchable=True),
    ] = None
    external_id: ExternalId = None
    metadata: Metadata = None


CARS = ResourceTable(
    "Car", "car", NewCar, key="car_id", id=("The number of the car.", 4), first=("name", "licensePlate")
)


# The members of a group, which are also the body of a new one (spec, "Group")
class NewGroup(Body):
    name: Annotated[
        Name,
        MemberInfo(
            N_("Name"),
            N_("the name"),
            "The name of the group, unique within the customer.",
            "North",
            is_searchable=True,
            has_natural_order=True,
        ),
    ]
    external_id: ExternalId = None
    metadata: Metadata = None


GROUPS = ResourceTable("Group", "fleet_group", NewGroup, key="group_id", id=("The number of the group.", 2))


class ProductRow(Body):
    """The members of a product that are columns (spec, "Product"). Operators create products."""

    unique_id: Annotated[
        Text,
        MemberInfo(
            N_("Unique id"),
            N_("the unique id"),
            "The id from the manufacturer, unique within the customer.",
            "A4C1380F21D7",
            is_searchable=True,
        ),
    ]
    serial_number: Annotated[
        Text,
        MemberInfo(
            N_("Serial number"),
            N_("the serial number"),
            "The number on the label, unique within the customer.",
            "BX-1",
            is_searchable=True,
            has_natural_order=True,
        ),
    ]
    sap_number: Annotated[
        Text,
        MemberInfo(
            N_("SAP number"),
            N_("the SAP number"),
            "The manufacturer's article number for this kind of product.",
            "100-BOX",
            is_searchable=True,
        ),
    ]
    dongle_termination_time_stamp: Annotated[
        datetime | None,
        MemberInfo(
            N_("Dongle ended at"),
            N_("the end of the dongle"),
            "When the dongle of the product was switched off permanently; null if it was not.",
            None,
            column="dongle_terminated_at",
            recorded_as="dongleTerminated",
        ),
    ] = None
    external_id: ExternalId = None
    metadata: Metadata = None


PRODUCTS = ResourceTable("Product", "product", ProductRow, key="product_id", id=("The number of the product.", 3))


class ServiceRow(Body):
    """The members of a service that are columns (spec, "Service"). Operators create services."""

    name: Annotated[
        Text,
        MemberInfo(N_("Name"), N_("the name"), "The name of the service.", "Key box, basic", is_searchable=True),
    ]
    is_terminated: Annotated[
        bool,
        MemberInfo(
            N_("Ended"),
            N_("the state"),
            "Whether the service has ended. A product whose service has ended opens nothing.",
            False,
        ),
    ]
    termination_date: Annotated[
        datetime | None,
        MemberInfo(
            N_("Ended at"),
            N_("the time of the end"),
            "When the service ended or will end.",
            None,
            column="terminated_at",
            recorded_as="terminated",
        ),
    ] = None
    termination_cause: Annotated[
        Text | None,
        MemberInfo(
            N_("Reason of the end"),
            N_("the reason of the end"),
            "Why the service ended, as entered by the operator.",
            None,
            is_searchable=True,
        ),
    ] = None


SERVICES = ResourceTable("Service", "service", ServiceRow, key="service_id", id=("The number of the service.", 5))


class ContractRow(Body):
    """The members of a contract that are columns (spec, "Contract"). Operators create contracts."""

    order_number: Annotated[
        Text,
        MemberInfo(N_("Order number"), N_("the order number"), "The order number.", "O-2026-0001", is_searchable=True),
    ]
    document_number: Annotated[
        Text,
        MemberInfo(
            N_("Document number"),
            N_("the document number"),
            "The number of the contract document.",
            "D-2026-0001",
            is_searchable=True,
        ),
    ]
    order_position: Annotated[
        int | None,
        MemberInfo(N_("Order position"), N_("the order position"), "The position of the service within the order.", 1),
    ] = None
    start: Annotated[
        datetime,
        MemberInfo(
            N_("Start"), N_("the start"), "When the contract begins.", "2026-01-01T00:00:00Z", column="starts_at"
        ),
    ]
    end: Annotated[
        datetime,
        MemberInfo(N_("End"), N_("the end"), "When the contract ends.", "2028-01-01T00:00:00Z", column="ends_at"),
    ]
    term_of_contract: Annotated[
        int | None,
        MemberInfo(
            N_("Term of the contract"),
            N_("the term"),
            "The agreed term, as entered by the operator.",
            24,
        ),
    ] = None
    term_of_notice: Annotated[
        int | None,
        MemberInfo(
            N_("Term of notice"),
            N_("the term of notice"),
            "The notice period before the end of the contract, in `unitOfNotice`.",
            3,
        ),
    ] = None
    unit_of_notice: Annotated[
        Text | None,
        MemberInfo(N_("Unit of notice"), N_("the unit of notice"), "The unit of `termOfNotice`.", "Month"),
    ] = None


CONTRACTS = ResourceTable("Contract", "contract", ContractRow, key="service_id")


class PersonRow(Body):
    """The members of a user that are columns of the person (spec, "User"). All customers of the person share them."""

    email_address: Annotated[
        EmailAddress,
        MemberInfo(
            N_("E-mail address"),
            N_("the e-mail address"),
            "The e-mail address of the person, unique and case-insensitive.",
            "sam.doe@example.com",
            is_searchable=True,
            is_personal=True,
        ),
    ]
    first_name: Annotated[
        Name | None,
        MemberInfo(
            N_("First name"), N_("the first name"), "The first name.", "Sam", is_searchable=True, is_personal=True
        ),
    ] = None
    last_name: Annotated[
        Name | None,
        MemberInfo(
            N_("Last name"),
            N_("the last name"),
            "The last name.",
            "Doe",
            is_searchable=True,
            has_natural_order=True,
            is_personal=True,
        ),
    ] = None


PEOPLE = ResourceTable(
    "User",
    "person",
    PersonRow,
    key="user_id",
    id=("The number of the user, the same in all customers.", 9),
    alias="{t}_person",
)


class ReferenceRow(Body):
    """The members with which other systems recognise a resource, alone.

    Those of a user belong to one customer, unlike the person. `assignments` writes the other columns of an assignment.
    """

    external_id: ExternalId = None
    metadata: Metadata = None


USERS = ResourceTable("User", "customer_user", ReferenceRow, key="user_id", is_personal=True)
ASSIGNMENTS = ResourceTable("Assignment", "assignment", ReferenceRow, key="assignment_id")
TABLES: tuple[ResourceTable, ...] = (
    CUSTOMERS, CARS, GROUPS, PRODUCTS, SERVICES, CONTRACTS, PEOPLE, USERS, ASSIGNMENTS,
)  # fmt: skip
