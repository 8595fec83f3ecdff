"""The tables whose members are declared, of all packages."""

from __future__ import annotations

from keyrack.api.schema.declaration import ResourceTable
from keyrack.auth.declarations import CLIENTS
from keyrack.fleet import declarations
from keyrack.webhooks.declarations import WEBHOOKS

TABLES: tuple[ResourceTable, ...] = (*declarations.TABLES, WEBHOOKS, CLIENTS)
