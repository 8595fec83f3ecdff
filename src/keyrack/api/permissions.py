"""In charge of what a caller may be permitted, and what each role has of it; docs/access.md shows both as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

WRITE = ":write"


class Permission(StrEnum):
    """What a row of the endpoints' table wants of its caller. Who may write may read as well."""

    CUSTOMER_READ = "customer:read"
    CARS_READ = "cars:read"
    CARS_WRITE = "cars:write"
    USERS_READ = "users:read"
    USERS_WRITE = "users:write"
    ERASURE_READ = "erasure:read"
    ERASURE_WRITE = "erasure:write"
    ASSIGNMENTS_READ = "assignments:read"
    ASSIGNMENTS_WRITE = "assignments:write"
    GROUPS_READ = "groups:read"
    GROUPS_WRITE = "groups:write"
    PRODUCTS_READ = "products:read"
    SERVICES_READ = "services:read"
    INSTALLATIONS_WRITE = "installations:write"
    PAIRINGS_WRITE = "pairings:write"
    KEYS_READ = "keys:read"
    SDK_WRITE = "sdk:write"
    EVENTS_READ = "events:read"
    EVENTS_WRITE = "events:write"
    POSITIONS_READ = "positions:read"
    BOXES_READ = "boxes:read"
    BOXES_WRITE = "boxes:write"
    ACCESS_READ = "access:read"
    CHANGES_READ = "changes:read"
    OPERATIONS_READ = "operations:read"
    BATCH_WRITE = "batch:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    LIVE_READ = "live:read"
    MANAGERS_READ = "managers:read"
    MANAGERS_WRITE = "managers:write"
    CLIENTS_READ = "clients:read"
    CLIENTS_WRITE = "clients:write"


MEANINGS: Mapping[Permission, str] = {
    Permission.CUSTOMER_READ: "See what is kept of the customer, and for how long.",
    Permission.CARS_READ: "See cars.",
    Permission.CARS_WRITE: "Make, change and delete cars.",
    Permission.USERS_READ: "See users.",
    Permission.USERS_WRITE: "Make users, and take them into the customer and out of it.",
    Permission.ERASURE_READ: "See what erasing a user would take.",
    Permission.ERASURE_WRITE: "Erase users.",
    Permission.ASSIGNMENTS_READ: "See assignments: who may open which car, when.",
    Permission.ASSIGNMENTS_WRITE: "Make, change and end assignments.",
    Permission.GROUPS_READ: "See groups.",
    Permission.GROUPS_WRITE: "Make, rename and delete groups, and say what is in them.",
    Permission.PRODUCTS_READ: "See products: key boxes and other units.",
    Permission.SERVICES_READ: "See services and their contracts.",
    Permission.INSTALLATIONS_WRITE: "Install products into cars and take them out.",
    Permission.PAIRINGS_WRITE: "Pair services with products, and end that.",
    Permission.KEYS_READ: "See the catalogue of brands and keys.",
    Permission.SDK_WRITE: "Get id tokens with which an app acts for a user.",
    Permission.EVENTS_READ: "See when cars were opened and closed, and by whom.",
    Permission.EVENTS_WRITE: "Record that a car was opened or closed.",
    Permission.POSITIONS_READ: "See where cars are and were, and what they told of themselves.",
    Permission.BOXES_READ: "See which boxes take keys without a network, their status lists and their logs' state.",
    Permission.BOXES_WRITE: "Enrol boxes, so that they take keys without a network.",
    Permission.ACCESS_READ: "See who could open a car, and which cars a user could open, at any time.",
    Permission.CHANGES_READ: "Read the log of changes and its proofs.",
    Permission.OPERATIONS_READ: "See what became of asynchronous requests.",
    Permission.BATCH_WRITE: "Send batches: each item wants the permission of its own kind as well.",
    Permission.WEBHOOKS_READ: "See webhooks and their deliveries.",
    Permission.WEBHOOKS_WRITE: "Register, change, test, replay and remove webhooks.",
    Permission.LIVE_READ: "Hear that something has changed, as it happens.",
    Permission.MANAGERS_READ: "See who may act for the customer, and in which role.",
    Permission.MANAGERS_WRITE: "Invite managers, give them roles, and remove them.",
    Permission.CLIENTS_READ: "See machine clients and what they may.",
    Permission.CLIENTS_WRITE: "Make and change machine clients and their secrets.",
}


class Free(StrEnum):
    """In the place of a permission, of a row that wants none: who may call it."""

    ANYBODY = "anybody"
    DEVICE = "a device key"
    USER = "an id token of the app SDK"
    CALLER = "every caller, about itself"
    PERSON = "every manager, about itself"


class Role(StrEnum):
    """What a manager is in a customer."""

    OWNER = "Owner"
    MANAGER = "Manager"
    DISPATCHER = "Dispatcher"
    TECHNICIAN = "Technician"
    AUDITOR = "Auditor"
    VIEWER = "Viewer"


ROLES: Mapping[Role, str] = {
    Role.OWNER: "All, and who may.",
    Role.MANAGER: "The fleet, and what tells other systems of it.",
    Role.DISPATCHER: "Sees the fleet; looks after its users and who may open which car.",
    Role.TECHNICIAN: "Boxes and services: what is installed where.",
    Role.AUDITOR: "Sees the fleet, the log of changes and what became of requests.",
    Role.VIEWER: "Sees the fleet.",
}


def closed(permissions: Iterable[Permission]) -> frozenset[Permission]:
    """The same, and of each that may write the one that reads.

    >>> sorted(closed([Permission.CARS_WRITE]))
    [<Permission.CARS_READ: 'cars:read'>, <Permission.CARS_WRITE: 'cars:write'>]
    """
    every = set(permissions)
    permissions_by_name = {str(permission): permission for permission in Permission}
    reads = (
        permissions_by_name.get(permission.removesuffix(WRITE) + ":read")
        for permission in every
        if permission.endswith(WRITE)
    )
    return frozenset(every | {permission for permission in reads if permission is not None})


# What a machine client may have: none that lets a program make itself, or somebody else, more than it is
PROGRAMS = tuple(one for one in Permission if one not in (Permission.MANAGERS_WRITE, Permission.CLIENTS_WRITE))
_WHO_MAY = frozenset(one for one in Permission if one.startswith(("managers:", "clients:")))
_FLEET = frozenset(
    [
        Permission.CUSTOMER_READ, Permission.CARS_READ, Permission.USERS_READ, Permission.ASSIGNMENTS_READ,
        Permission.GROUPS_READ, Permission.PRODUCTS_READ, Permission.SERVICES_READ, Permission.KEYS_READ,
        Permission.EVENTS_READ, Permission.POSITIONS_READ, Permission.BOXES_READ, Permission.ACCESS_READ,
        Permission.LIVE_READ,
    ]
)  # fmt: skip
# What a role keeps of its permissions where it is limited to groups: whatever else it may tells of the whole fleet, or
# reaches all of it; and what is in a group is said by who is not limited
WITHIN_GROUPS = frozenset(
    [
        Permission.CUSTOMER_READ, Permission.CARS_READ, Permission.CARS_WRITE, Permission.USERS_READ,
        Permission.USERS_WRITE, Permission.ASSIGNMENTS_READ, Permission.ASSIGNMENTS_WRITE, Permission.GROUPS_READ,
        Permission.PRODUCTS_READ, Permission.SERVICES_READ, Permission.INSTALLATIONS_WRITE,
        Permission.PAIRINGS_WRITE, Permission.KEYS_READ, Permission.EVENTS_READ,
        Permission.EVENTS_WRITE, Permission.POSITIONS_READ, Permission.BOXES_READ, Permission.BOXES_WRITE,
        Permission.ACCESS_READ, Permission.CHANGES_READ, Permission.BATCH_WRITE, Permission.LIVE_READ,
    ]
)  # fmt: skip
# What each role has: a role that is not here, or none at all, has nothing
GRANTED: Mapping[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.MANAGER: frozenset(Permission) - _WHO_MAY,
    Role.DISPATCHER: _FLEET | closed(
        [Permission.USERS_WRITE, Permission.ASSIGNMENTS_WRITE, Permission.SDK_WRITE, Permission.BATCH_WRITE,
         Permission.OPERATIONS_READ]
    ),
    Role.TECHNICIAN: closed(
        [Permission.CUSTOMER_READ, Permission.CARS_READ, Permission.GROUPS_READ, Permission.PRODUCTS_READ,
         Permission.SERVICES_READ, Permission.KEYS_READ, Permission.INSTALLATIONS_WRITE, Permission.PAIRINGS_WRITE,
         Permission.BOXES_WRITE, Permission.BATCH_WRITE, Permission.OPERATIONS_READ, Permission.LIVE_READ]
    ),
    Role.AUDITOR: _FLEET | {Permission.CHANGES_READ, Permission.OPERATIONS_READ},
    Role.VIEWER: _FLEET,
}  # fmt: skip
