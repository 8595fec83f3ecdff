"""Rows of the change log, written by a test."""

from __future__ import annotations

import json
from typing import Any

from keyrack.db.change_notifier import CHANNEL, NUMBERED, encode_notifications
from tests.support.people import Person

WHO = {"type": "manager", "id": "7", "name": "anna"}
MAKE = """
with log as (
  insert into change_log as l (customer_id, last_id, last_recorded_at) values ($1, $2, now())
  on conflict (customer_id) do update set last_id = l.last_id + $2, last_recorded_at = now()
  returning class, last_id - $2 as before, last_recorded_at
)
insert into change (class, customer_id, change_id, recorded_at, at, kind, resource, resource_id, who, groups, before,
                    after, person, record)
select class, $1, before + n, last_recorded_at, now(), $3, split_part($3, '.', 1), n::text, $4, $5, $6, $7, $8, '\\x00'
from log, generate_series(1, $2::integer) n
returning change_id
"""


def made(whose: Person, count: int = 1, kind: str = "car.updated", **members: Any) -> list[int]:
    """Write `count` changes of a customer without a notification. Returns their numbers."""
    whose.sql.execute("select make_changes(current_date)")
    said = {name: None if members.get(name) is None else json.dumps(members[name]) for name in ("before", "after")}
    rows = whose.sql.rows(
        MAKE, whose.customer, count, kind, json.dumps(members.get("who", WHO)), members.get("groups", []),
        said["before"], said["after"], json.dumps(members["person"]) if "person" in members else None,
    )  # fmt: skip
    return sorted(row["change_id"] for row in rows)


def epoch(person: Person) -> str:
    return str(person.sql.value("select epoch from change_log where customer_id = $1", person.customer))


def told(whose: Person) -> None:
    """Send the notification of new numbers to all processes, as the sequencer does."""
    said = list(encode_notifications({whose.customer: NUMBERED}))
    whose.sql.execute("select pg_notify($1, said) from unnest($2::text[]) said", CHANNEL, said)
