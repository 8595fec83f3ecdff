"""The tables of a move, and the rule for each.

- **Replicated** tables have the customer in their key. Their rows follow every change until the switch.
- **Switched** tables have it too, but a row of them gives access or causes work. So their rows appear in the target,
  and disappear from the source, only at the switch.
- **Account** tables belong to managers, machine clients, persons and drivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.ops.cells.side import Side

# The tables with the customer in their primary key, whole ones instead of partitions
OF_CUSTOMER: LiteralString = """
select c.relname as name from pg_class c
join pg_index i on i.indrelid = c.oid and i.indisprimary
join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey) and a.attname = 'customer_id'
where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = current_schema()::regnamespace
order by c.relname
"""
SWITCHED = (
    "customer",  # the directory
    "customer_hold",  # without it no operation is scheduled or applied
    "change_log",  # the end of the log: retention and the sequencer look through all logs
    "delivery_lane",  # deliveries are sent by lane
    "driver_push_change",
    "device_key", "sdk_key", "invitation", "manager_customer", "manager_role", "client_customer", "driver_access",
)  # fmt: skip
# Changes without a number. All of them are numbered before the switch, so none is left to copy
EMPTY_AT_SWITCH = ("change_inbox",)

_MANAGERS: LiteralString = "manager_id in (select manager_id from manager_customer where customer_id = $1)"
_CLIENTS: LiteralString = "client_id in (select client_id from client_customer where customer_id = $1)"
_USERS: LiteralString = "user_id in (select user_id from customer_user where customer_id = $1)"
_DRIVERS: LiteralString = "user_id in (select user_id from driver_access where customer_id = $1)"
_ONLY_HERE: LiteralString = (
    " and not exists (select from driver_access d where d.user_id = t.user_id and d.customer_id <> $1)"
)


@dataclass(frozen=True, slots=True)
class AccountTable:
    """A table of accounts, and which rows are copied and deleted."""

    name: str
    copied: LiteralString  # condition of the rows `t` for customer $1
    deleted: LiteralString | None  # None: the rows stay until the move is finished
    own_id: str | None = None  # the column of ids that only this cell gives: the target gives new ones


# Short-lived rows such as steps of a sign-in are left out: the person starts again. So are the subscriptions of
# browsers to push messages, which belong to the key of their cell
ACCOUNTS = (
    AccountTable("manager", _MANAGERS, _MANAGERS),
    AccountTable("manager_identity", _MANAGERS, _MANAGERS, "identity_id"),
    AccountTable("passkey", _MANAGERS, _MANAGERS, "passkey_id"),
    AccountTable("password_link", _MANAGERS, _MANAGERS),
    AccountTable("recovery", _MANAGERS, _MANAGERS),
    AccountTable("totp", _MANAGERS, _MANAGERS),
    AccountTable("session", _MANAGERS, _MANAGERS, "session_id"),
    AccountTable("client", _CLIENTS, _CLIENTS),
    AccountTable("client_secret", _CLIENTS, _CLIENTS, "client_secret_id"),
    AccountTable("mail", "invited_to = $1", "invited_to = $1", "mail_id"),
    AccountTable("person", _USERS, None),
    AccountTable("driver_identity", _DRIVERS, _DRIVERS + _ONLY_HERE),
    AccountTable("driver_passkey", _DRIVERS, _DRIVERS + _ONLY_HERE, "passkey_id"),
    AccountTable("driver_session", "customer_id = $1", "customer_id = $1", "session_id"),
    AccountTable("driver_link", "customer_id = $1", "customer_id = $1", "link_id"),
    AccountTable("driver_account", _DRIVERS, _DRIVERS + _ONLY_HERE),
    # A key that several customers use works in both cells
    AccountTable("api_key", "revoked_at is null", None, "api_key_id"),
)
# Deleted with the accounts in the source, and copied nowhere
SHORT_LIVED: dict[str, LiteralString] = {
    "sign_in_step": _MANAGERS,
    "login_state": _MANAGERS,
    "driver_push": "session_id in (select session_id from driver_session where customer_id = $1)",
}
# Tables whose rows no customer's writer may change while the customer is held, by the column of the account
GUARDED_ACCOUNTS = {
    "manager": "manager_id", "manager_identity": "manager_id", "passkey": "manager_id", "password_link": "manager_id",
    "recovery": "manager_id", "totp": "manager_id", "session": "manager_id",
    "client": "client_id", "client_secret": "client_id",
    "person": "user_id", "driver_account": "user_id", "driver_identity": "user_id", "driver_passkey": "user_id",
    "driver_session": "user_id", "driver_link": "user_id",
}  # fmt: skip


async def customer_tables(side: Side) -> list[str]:
    """The tables with the customer in their key, by name."""
    return [row["name"] for row in await side.fetch(OF_CUSTOMER)]


async def replicated_tables(side: Side) -> list[str]:
    """The tables that a publication of one customer has."""
    return [name for name in await customer_tables(side) if name not in (*SWITCHED, *EMPTY_AT_SWITCH)]
