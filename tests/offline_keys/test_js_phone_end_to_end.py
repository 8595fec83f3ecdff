"""The phone in JavaScript with a server, from registration to log."""

from __future__ import annotations

import json
import os
import subprocess

from tests.offline_keys.offline_world import driver, garage
from tests.offline_keys.phone_bridge import PHONE, bridge
from tests.offline_keys.test_js_phone import PATIENCE, needs_node, node
from tests.support.people import Town
from tests.support.servers import RunningServer


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
