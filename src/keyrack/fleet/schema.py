"""The resources of the fleet: tables, relations, group scope and computed properties (spec, "Resources").

`fleet.declarations` declares the members that are columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString

from keyrack.api.permissions import Free, Permission
from keyrack.api.schema.fields import (
    RESOURCES,
    Complex,
    GroupScope,
    Relation,
    Resource,
    SearchSource,
    boolean,
    date_time,
    double,
    int32,
    string,
    wall_clock,
)
from keyrack.api.schema.group_scope import in_scope_sql, scope_lookup_sql, scoped_by, scoped_itself
from keyrack.fleet.declarations import (
    ASSIGNMENTS,
    CARS,
    CONTRACTS,
    CUSTOMERS,
    GROUPS,
    PEOPLE,
    PRODUCTS,
    SERVICES,
    USERS,
)

_OF_CUSTOMER: LiteralString = "{t}.customer_id = :customer"


def _via(table: LiteralString, column: LiteralString, group: LiteralString, item: LiteralString) -> LiteralString:
    """The link through one of the four tables of group members."""
    return (
        "exists (select from "
        + table
        + " l where l.customer_id = {p}.customer_id and l.group_id = {"
        + group
        + "}.group_id"
        " and l." + column + " = {" + item + "}." + column + ")"
    )


_OF_GROUP = GroupScope(
    " join scope_group {t}_in on {t}_in.customer_id = {t}.customer_id and {t}_in.group_id = {t}.group_id",
    "{t}_in.customer_id = :customer and {t}_in.scope_id = :scope",
)
# A product is in the scope of a group-limited caller if it is in one of the groups; a box also if its car is
_OF_PRODUCT = GroupScope(
    "",
    "(" + in_scope_sql("product", "{t}.product_id")
    + " or {t}.kind = 'Box' and " + in_scope_sql("car", "{t}.car_id") + ")",
    id_column="product_id",
    members=(
        "(select customer_id, member_id from scope_member"
        " where customer_id = :customer and scope_id = :scope and kind = 'product'"
        " union select b.customer_id, b.product_id from scope_member c"
        # At most one row. Without `limit`, PostgreSQL might read all products of the customer
        " cross join lateral (select p.customer_id, p.product_id from product p where p.customer_id = c.customer_id"
        " and p.car_id = c.member_id and p.kind = 'Box' limit 1) b"
        # In order, so that a page by id ends after its rows
        " where c.customer_id = :customer and c.scope_id = :scope and c.kind = 'car' order by member_id)"
    ),
)  # fmt: skip


def product_in_scope_sql(id: LiteralString) -> LiteralString:
    """SQL of whether a product is in a caller's group scope."""
    return (
        "exists (select from product b where b.customer_id = :customer and b.product_id = " + id + " and "
        + _OF_PRODUCT.scope.replace("{t}", "b") + ")"
    )  # fmt: skip


# A group-limited caller gets null for a product id out of scope, and for the serial number of such a unit
PRODUCT_IN_SCOPE = int32(
    "case when " + product_in_scope_sql("{t}.product_id") + " then {t}.product_id end", nullable=True
)
SERIAL_NUMBER_IN_SCOPE = string(
    "case when " + in_scope_sql("product", "{t}.product_id") + " then {t}.serial_number end", nullable=True
)

CUSTOMER = Resource(
    "Customer",
    "customer {t}",
    "{t}.customer_id = any(:customers::integer[])",
    {"id": string("{t}.customer_id::text"), **CUSTOMERS.fields},
    permission=Free.CALLER,
)


def _row_search(table: LiteralString, pending: LiteralString = "search_text") -> SearchSource:
    """The search of a table's own rows; `pending` is the column whose index finds rows without a search text.

    The cast is for the lists of group-limited callers, where `{t}` is a subselect.
    """
    return SearchSource("{t}.search_text", "{t}." + pending + " is null", "search_document({t}::" + table + ")")


CAR_SEARCH = _row_search("car", "sort_key")
PERSON_SEARCH = SearchSource("{t}_person.search_text", "{t}_person.search_text is null", "search_document({t}_person)")
# A person is shared between customers, so its document lacks the `externalId`, which belongs to one of them
_EQUAL_USERS: LiteralString = "select user_id from customer_user where customer_id = :customer and external_id = {0}"
_PREFIXED_USERS: LiteralString = (
    "select user_id from customer_user where customer_id = :customer and external_id >= {0}"
    " and external_id < {0} || chr(1114111)"
)

CAR = Resource(
    "Car",
    "car {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.car_id"),
        **CARS.fields,
    },
    relations={
        "products": Relation("Product", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id"),
        "assignments": Relation("AssignmentOfCar", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id"),
        "groups": Relation("Group", _via("group_car", "car_id", "t", "p")),
    },
    walks=("name", "licensePlate", "vin"),
    search=CAR_SEARCH,
    group_scope=scoped_itself("car"),
    permission=Permission.CARS_READ,
)

USER = Resource(
    "User",
    "customer_user {t} join person {t}_person using (user_id)",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.user_id"),
        "emailAddress": PEOPLE.fields["emailAddress"],
        "userData": Complex({name: field for name, field in PEOPLE.fields.items() if name != "emailAddress"}),
        **USERS.fields,
    },
    search=replace(PERSON_SEARCH, key="{t}_person.user_id", equal_keys=_EQUAL_USERS, prefix_keys=_PREFIXED_USERS),
    relations={
        "assignments": Relation("AssignmentOfUser", "{t}.customer_id = {p}.customer_id and {t}.user_id = {p}.user_id"),
        "groups": Relation("Group", _via("group_user", "user_id", "t", "p")),
    },
    group_scope=scoped_itself("user"),
    permission=Permission.USERS_READ,
)

ASSIGNMENT = Resource(
    "Assignment",
    "assignment {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.assignment_id"),
        "carId": int32("{t}.car_id"),
        "userId": int32("{t}.user_id", nullable=True),
        "start": date_time("{t}.starts_at"),
        "end": date_time("{t}.ends_at", nullable=True),
        "lifetime": int32("{t}.lifetime", nullable=True),
        "renewableAfter": int32("coalesce({t}.renewable_after, {t}.lifetime / 2)", nullable=True),
        "exclusive": replace(boolean("{t}.is_exclusive"), is_extension=True),
        **ASSIGNMENTS.fields,
    },
    relations={
        "car": Relation("Car", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id", is_collection=False),
        "user": Relation(
            "User", "{t}.customer_id = {p}.customer_id and {t}.user_id = {p}.user_id", is_collection=False
        ),
    },
    walks=("start",),
    group_scope=scoped_by("car", user=True, is_ordered=True),
    permission=Permission.ASSIGNMENTS_READ,
)
_EXTENSIONS = ("exclusive", *ASSIGNMENTS.fields)
ASSIGNMENT_OF_CAR = ASSIGNMENT.only("id", "userId", "start", "end", *_EXTENSIONS)
ASSIGNMENT_OF_USER = replace(ASSIGNMENT.only("id", "carId", "start", "end", *_EXTENSIONS), walks=())


def _of_hidden_user(row: LiteralString) -> LiteralString:
    """SQL of whether the user of an assignment is out of the caller's scope."""
    return row + ".user_id is not null and " + scope_lookup_sql("user", row + ".user_id") + " is null"


# Only the longest of those with the same start: car and start then identify a row, so it needs no id
_IS_LONGEST: LiteralString = (
    "not exists (select from assignment l where l.customer_id = {t}.customer_id and l.car_id = {t}.car_id"
    " and l.starts_at = {t}.starts_at and (coalesce(l.ends_at, 'infinity'), l.assignment_id)"
    " > (coalesce({t}.ends_at, 'infinity'), {t}.assignment_id) and " + _of_hidden_user("l") + ")"
)
_OF_VISIBLE_CAR = scoped_by("car")
# The times at which a car in scope is assigned to a user out of scope. Callers without a scope get none
HIDDEN_ASSIGNMENT = Resource(
    "HiddenAssignment",
    "assignment {t}",
    _OF_CUSTOMER + " and false",
    {
        "carId": int32("{t}.car_id"),
        "start": date_time("{t}.starts_at"),
        "end": date_time("{t}.ends_at", nullable=True),
    },
    relations={"car": ASSIGNMENT.relations["car"]},
    key=("carId", "start"),
    group_scope=replace(
        _OF_VISIBLE_CAR,
        scope=" and ".join([_OF_CUSTOMER, _OF_VISIBLE_CAR.scope, _of_hidden_user("{t}"), _IS_LONGEST]),
        is_whole=True,
    ),
    permission=Permission.ASSIGNMENTS_READ,
)

GROUP = Resource(
    "Group",
    "fleet_group {t}",
    _OF_CUSTOMER,
    {"id": int32("{t}.group_id"), **GROUPS.fields},
    search=_row_search("fleet_group"),
    relations={
        "cars": Relation("Car", _via("group_car", "car_id", "p", "t")),
        "users": Relation("User", _via("group_user", "user_id", "p", "t")),
        "services": Relation("ServiceOfProduct", _via("group_service", "service_id", "p", "t")),
        "products": Relation("Product", _via("group_product", "product_id", "p", "t")),
    },
    walks=("name",),
    group_scope=_OF_GROUP,
    permission=Permission.GROUPS_READ,
)

PRODUCT = Resource(
    "Product",
    "product {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.product_id"),
        **PRODUCTS.fields,
        "type": string("(current_setting('keyrack.brand') || ' ' || {t}.kind)"),
    },
    relations={
        "service": Relation(
            "ServiceOfProduct",
            "{t}.customer_id = {p}.customer_id and {t}.product_id = {p}.product_id",
            is_collection=False,
        ),
        "car": Relation("Car", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id", is_collection=False),
        "groups": Relation("Group", _via("group_product", "product_id", "t", "p")),
    },
    walks=("uniqueId", "serialNumber"),
    search=_row_search("product"),
    group_scope=_OF_PRODUCT,
    permission=Permission.PRODUCTS_READ,
)
PRODUCT_LISTED = PRODUCT.without("dongleTerminationTimeStamp")

SERVICE = Resource(
    "Service",
    "service {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.service_id"),
        "name": SERVICES.fields["name"],
        "productId": int32("{t}.product_id", nullable=True),
        **{name: field for name, field in SERVICES.fields.items() if name != "name"},
    },
    relations={
        "groups": Relation("Group", _via("group_service", "service_id", "t", "p")),
        "product": Relation(
            "Product", "{t}.customer_id = {p}.customer_id and {t}.product_id = {p}.product_id", is_collection=False
        ),
        "contract": Relation(
            "Contract", "{t}.customer_id = {p}.customer_id and {t}.service_id = {p}.service_id", is_collection=False
        ),
    },
    walks=("name",),
    group_scope=replace(scoped_itself("service"), fields={"productId": PRODUCT_IN_SCOPE}),
    permission=Permission.SERVICES_READ,
)
SERVICE_OF_PRODUCT = SERVICE.without("productId")

CONTRACT = Resource(
    "Contract",
    "contract {t}",
    _OF_CUSTOMER,
    CONTRACTS.fields,
    key=("orderNumber", "documentNumber"),
    group_scope=scoped_by("service"),
    permission=Permission.SERVICES_READ,
)

EVENT = Resource(
    "Event",
    "event {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.event_id"),
        "dateTime": wall_clock("{t}.local_at", json="{t}.local_text"),
        "utcDateTime": date_time("{t}.utc_at"),
        "userId": int32("{t}.user_id"),
        "carId": int32("{t}.car_id"),
        "type": string("{t}.type", enum=("CarOpened", "CarClosed")),
        "userAgent": string("{t}.user_agent", search=True),
        "latitude": double("{t}.latitude", nullable=True),
        "longitude": double("{t}.longitude", nullable=True),
    },
    relations={
        "car": Relation("Car", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id", is_collection=False),
        "user": Relation(
            "User", "{t}.customer_id = {p}.customer_id and {t}.user_id = {p}.user_id", is_collection=False
        ),
    },
    walks=("utcDateTime",),
    group_scope=scoped_by("car", user=True, is_ordered=True),
    permission=Permission.EVENTS_READ,
)

BRAND = Resource(
    "Brand",
    "(select distinct brand from brand_key) {t}",
    "",
    {"name": string("{t}.brand", search=True)},
    key=("name",),
    scalar="name",
    permission=Permission.KEYS_READ,
)

KEY = Resource(
    "Key",
    "brand_key {t} join key_form {t}_form using (key_form_id)",
    "",
    {
        "id": int32("{t}.brand_key_id"),
        "brand": string("{t}.brand", search=True),
        "boxName": string("{t}.box_name", nullable=True, search=True),
        "boxSapNumber": string("{t}.box_sap_number", nullable=True, search=True),
        "keyForm": Complex(
            {
                "id": int32("{t}_form.key_form_id"),
                "name": string("{t}_form.name", search=True),
                "imageUrl": string(
                    "coalesce({t}_form.image_url,"
                    " current_setting('keyrack.public_url') || '/key-forms/' || {t}_form.key_form_id || '.svg')"
                ),
            }
        ),
    },
    permission=Permission.KEYS_READ,
)

RESOURCES.update(
    {
        "Car": CAR,
        "User": USER,
        "Group": GROUP,
        "Product": PRODUCT,
        "Contract": CONTRACT,
        "ServiceOfProduct": SERVICE_OF_PRODUCT,
        "AssignmentOfCar": ASSIGNMENT_OF_CAR,
        "AssignmentOfUser": ASSIGNMENT_OF_USER,
        "HiddenAssignment": HIDDEN_ASSIGNMENT,
    }
)
