"""The phone in JavaScript with a server, from registration to log."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import timedelta

from tests.offline_keys.offline_world import driver, garage
from tests.offline_keys.phone_bridge import PHONE, bridge
from tests.offline_keys.test_js_phone import PATIENCE, needs_node, node
from tests.support.people import Town
from tests.support.servers import RunningServer, Sql

AWAY_DAYS = 28  # the longest lifetime of a key, for which the server accepts an older app
# As if the phone had been away: all that the server knows of it happened earlier
DAYS_PASS = """
with d as (update app_device set registered_at = registered_at - $2::interval where customer_id = $1),
a as (update assignment set starts_at = starts_at - $2::interval where customer_id = $1)
update box_key set issued_at = issued_at - $2::interval, begins_at = begins_at - $2::interval,
  expires_at = expires_at - $2::interval, shown_at = shown_at - $2::interval
where customer_id = $1
"""


@needs_node
def test_at_a_server(town: Town, server: RunningServer) -> None:
    person = town.person("phone")
    car, box = garage(person)
    user = person.user()
    person.assignment(car, user)
    owner = driver(person, user)
    with bridge() as bridged:
        bridged.boxes.append(box.say)
        whole = {
            "base": f"{server.url}/v3",
            "idToken": owner.token,
            "subject": owner.subject,
            "box": f"{bridged.url}/boxes/0",
        }
        ran = subprocess.run(
            [str(node()), "--test", "--test-reporter=spec", "test/whole.test.js"],
            cwd=PHONE,
            env=os.environ | {"KEYRACK_WHOLE": json.dumps(whole)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert box.challenge().first == 3, "the receipt has freed what is home"
    events = person.get("/events").json()
    assert [event["type"] for event in events] == ["CarOpened", "CarClosed"], events


@needs_node
def test_a_phone_that_was_away_for_28_days(town: Town, server: RunningServer, dsn: str) -> None:
    """The phone is that of this release; `tests/drivers/app-contract.json` has that of the previous one."""
    person = town.person("late")
    car, box = garage(person)
    user = person.user()
    person.assignment(car, user)
    owner = driver(person, user)

    def days_pass(_: bytes) -> bytes:
        sql = Sql(dsn)  # the bridge calls from its own thread
        try:
            sql.execute(DAYS_PASS, person.customer, timedelta(days=AWAY_DAYS))
        finally:
            sql.close()
        box.come_again()
        return b""

    with bridge() as bridged:
        bridged.boxes += [box.say, days_pass]
        late = {
            "base": f"{server.url}/v3", "idToken": owner.token, "subject": owner.subject,
            "box": f"{bridged.url}/boxes/0", "daysPass": f"{bridged.url}/boxes/1",
        }  # fmt: skip
        ran = subprocess.run(
            [str(node()), "--test", "--test-reporter=spec", "test/late.test.js"],
            cwd=PHONE,
            env=os.environ | {"KEYRACK_LATE": json.dumps(late)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [event["type"] for event in person.get("/events").json()] == ["CarOpened", "CarOpened"]
    issued = "select count(*) from box_key where customer_id = $1 and user_id = $2"
    assert person.sql.value(issued, person.customer, user) == 2
