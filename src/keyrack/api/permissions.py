"""The permissions of callers, and those of each role. docs/access.md has both as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

WRITE = ":write"


class Permission(StrEnum):
    """The permission that an endpoint requires. A write permission includes the read permission."""

    CUSTOMER_READ = "customer:read"
    CARS_READ = "cars:read"
    CARS_WRITE = "cars:write"
    USERS_READ = "users:read"
    USERS_WRITE = "users:write"
    ERASURE_READ = "erasure:read"
    ERASURE_WRITE = "erasure:write"
    ASSIGNMENTS_READ = "assignments:read"
    ASSIGNMENTS_WRITE = "assignments:write"
    ASSIGNMENTS_SHARE = "assignments:share"
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
    Permission.CUSTOMER_READ: "See the retention of the customer's data.",
    Permission.CARS_READ: "See cars.",
    Permission.CARS_WRITE: "Create, change and delete cars.",
    Permission.USERS_READ: "See users.",
    Permission.USERS_WRITE: "Create users, add them to the customer and remove them.",
    Permission.ERASURE_READ: "Preview the erasure of a user.",
    Permission.ERASURE_WRITE: "Erase users.",
    Permission.ASSIGNMENTS_READ: "See assignments of cars to users.",
    Permission.ASSIGNMENTS_WRITE: "Create, change and end assignments.",
    Permission.ASSIGNMENTS_SHARE: "Change booking settings, and share cars that require exclusive assignments.",
    Permission.GROUPS_READ: "See groups.",
    Permission.GROUPS_WRITE: "Create, rename and delete groups, and change their members.",
    Permission.PRODUCTS_READ: "See products: key boxes and other units.",
    Permission.SERVICES_READ: "See services and their contracts.",
    Permission.INSTALLATIONS_WRITE: "Install products in cars and uninstall them.",
    Permission.PAIRINGS_WRITE: "Pair services with products and unpair them.",
    Permission.KEYS_READ: "See the catalogue of brands and keys.",
    Permission.SDK_WRITE: "Get id tokens with which an app acts for a user.",
    Permission.EVENTS_READ: "See openings and closings of cars.",
    Permission.EVENTS_WRITE: "Record openings and closings of cars.",
    Permission.POSITIONS_READ: "See positions, tracks and telemetry of cars.",
    Permission.BOXES_READ: "See enrolled boxes, their status lists and the state of their logs.",
    Permission.BOXES_WRITE: "Enrol boxes for keys that open without a network.",
    Permission.ACCESS_READ: "See the access history of cars and users.",
    Permission.CHANGES_READ: "Read the change log and its proofs.",
    Permission.OPERATIONS_READ: "See the state of asynchronous requests.",
    Permission.BATCH_WRITE: "Run batches. Each item also requires the permission of its kind.",
    Permission.WEBHOOKS_READ: "See webhooks and their deliveries.",
    Permission.WEBHOOKS_WRITE: "Create, change, test, replay and delete webhooks.",
    Permission.LIVE_READ: "Receive notifications of changes as they happen.",
    Permission.MANAGERS_READ: "See managers and their roles.",
    Permission.MANAGERS_WRITE: "Invite managers, assign their roles, and remove them.",
    Permission.CLIENTS_READ: "See machine clients and their scopes.",
    Permission.CLIENTS_WRITE: "Create and change machine clients and their secrets.",
}


class Free(StrEnum):
    """The callers of a row that requires no permission."""

    PUBLIC = "no credentials"
    DEVICE = "a device key"
    USER = "an id token of the app SDK"
    DRIVER = "a driver's session"
    CALLER = "every caller, about itself"
    PERSON = "every manager, about itself"


class Role(StrEnum):
    """The role of a manager in a customer."""

    OWNER = "Owner"
    MANAGER = "Manager"
    DISPATCHER = "Dispatcher"
    TECHNICIAN = "Technician"
    AUDITOR = "Auditor"
    VIEWER = "Viewer"


ROLES: Mapping[Role, str] = {
    Role.OWNER: "Full access, including the roles of others.",
    Role.MANAGER: "Manages the fleet and its webhooks.",
    Role.DISPATCHER: "Sees the fleet, and manages users and assignments.",
    Role.TECHNICIAN: "Installs boxes and pairs services.",
    Role.AUDITOR: "Sees the fleet, the change log and the state of requests.",
    Role.VIEWER: "Sees the fleet.",
}


def closed(permissions: Iterable[Permission]) -> frozenset[Permission]:
    """The permissions with the read permission of each write permission.

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


# Permissions of machine clients: none with which a program can grant itself or others more
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
# Permissions that a group-limited role keeps. All others reveal or affect the whole fleet, and only managers without a
# limit change the content of groups
WITHIN_GROUPS = frozenset(
    [
        Permission.CUSTOMER_READ, Permission.CARS_READ, Permission.CARS_WRITE, Permission.USERS_READ,
        Permission.USERS_WRITE, Permission.ASSIGNMENTS_READ, Permission.ASSIGNMENTS_WRITE, Permission.ASSIGNMENTS_SHARE,
        Permission.GROUPS_READ, Permission.PRODUCTS_READ, Permission.SERVICES_READ, Permission.INSTALLATIONS_WRITE,
        Permission.PAIRINGS_WRITE, Permission.KEYS_READ, Permission.EVENTS_READ,
        Permission.EVENTS_WRITE, Permission.POSITIONS_READ, Permission.BOXES_READ, Permission.BOXES_WRITE,
        Permission.ACCESS_READ, Permission.CHANGES_READ, Permission.BATCH_WRITE, Permission.LIVE_READ,
    ]
)  # fmt: skip
# Permissions of each role. An unknown or missing role has none
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
