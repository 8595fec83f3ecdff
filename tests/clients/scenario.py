"""An integration with the generated Python client, from sign-in to events."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TypeVar, cast

from keyrack_client import AuthenticatedClient
from keyrack_client.api.assignments import create_assignment, get_assignment
from keyrack_client.api.authentication import get_access_token
from keyrack_client.api.cars import create_car, get_car, get_car_location, list_events_of_car
from keyrack_client.api.customers import list_customers
from keyrack_client.api.events import create_event
from keyrack_client.api.ingest import deliver_telemetry
from keyrack_client.api.installations import install_product
from keyrack_client.api.users import create_user
from keyrack_client.api.webhooks import create_webhook
from keyrack_client.models import (
    AccessToken,
    Assignment,
    Car,
    Created,
    Customer,
    Delivered,
    Event,
    EventType,
    GetCarResponse404,
    Installation,
    Location,
    NewAssignment,
    NewCar,
    NewEvent,
    NewUser,
    NewWebhook,
    Outcome,
    OutcomeKind,
    OutcomeType,
    PasswordGrant,
    Sample,
    UserCreated,
    UserData,
    UserType,
    WebhookCreated,
)
from standardwebhooks import Webhook

PATIENCE = 60  # seconds for an outcome
Answer = TypeVar("Answer")
Message = tuple[Mapping[str, str], bytes]


def wanted(kind: type[Answer], parsed: object) -> Answer:
    """Return the response if it has this type. Raises `AssertionError` with the error response otherwise."""
    assert isinstance(parsed, kind), parsed
    return parsed


def several(kind: type[Answer], parsed: object) -> list[Answer]:
    """Return the rows of a response if they have this type.

    Raises `AssertionError` with the error response otherwise.
    """
    return [wanted(kind, row) for row in cast("list[object]", wanted(list, parsed))]


class Receiver:
    """A receiver of webhooks: its address, and the received messages."""

    def __init__(self) -> None:
        messages: queue.Queue[Message] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.put(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self.messages = messages
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keyrack"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def main() -> None:
    url, key = os.environ["KEYRACK_URL"], os.environ["KEYRACK_API_KEY"]
    application = AuthenticatedClient(url, token=key, prefix="", auth_header_name="vendor-API-Key")
    credentials = PasswordGrant(os.environ["KEYRACK_USERNAME"], os.environ["KEYRACK_PASSWORD"], "password")
    token = wanted(AccessToken, get_access_token.sync(client=application, body=credentials))
    headers = {"vendor-API-Key": key, "Accept": "application/problem+json"}  # the client parses each error as JSON
    client = AuthenticatedClient(url, token=token.access_token, headers=headers)

    customers = several(Customer, list_customers.sync(client=client))
    customer = int(customers[0].id)
    assert customer == int(os.environ["KEYRACK_CUSTOMER_ID"])

    new_car = NewCar(name="Python's", license_plate="PY 1")
    car_id = wanted(Created, create_car.sync(client=client, customer_id=customer, body=new_car)).id
    car = wanted(Car, get_car.sync(car_id, client=client, customer_id=customer))
    assert (car.name, car.license_plate, car.vin) == ("Python's", "PY 1", None)

    name = UserData("Pia", "Python")
    new_user = NewUser(f"pia.{customer}@example.com", name, type_=UserType.NORMAL)
    user = wanted(UserCreated, create_user.sync(client=client, customer_id=customer, body=new_user))
    assert user.password

    for serial in (os.environ["KEYRACK_BOX"], os.environ["KEYRACK_IQ"]):
        installation = Installation(car_id, serial_number=serial)
        installed = install_product.sync_detailed(client=client, customer_id=customer, body=installation)
        assert installed.status_code == HTTPStatus.NO_CONTENT, installed.content

    receiver = Receiver()
    new_webhook = NewWebhook(url=receiver.url, kinds=[OutcomeKind.ASSIGNMENT_CREATED])
    webhook = wanted(WebhookCreated, create_webhook.sync(client=client, customer_id=customer, body=new_webhook))

    start = datetime(2026, 5, 1, 8, tzinfo=UTC)
    new_assignment = NewAssignment(car_id, user.id, start, lifetime=700_000)
    asked = create_assignment.sync_detailed(client=client, customer_id=customer, body=new_assignment)
    assert asked.status_code == HTTPStatus.NO_CONTENT, asked.content
    received, body = receiver.messages.get(timeout=PATIENCE)
    outcome = Outcome.from_dict(Webhook(webhook.signing_secret).verify(body, dict(received)))
    assert str(outcome.operation_id) == asked.headers["Operation-Id"]
    assert (outcome.type_, outcome.operation_succeeded) == (OutcomeType.ASSIGNMENT_CREATED, True)
    assert (outcome.car_id, outcome.user_id, outcome.start) == (car_id, user.id, start)
    assert outcome.assignment_id is not None
    assignment = wanted(Assignment, get_assignment.sync(outcome.assignment_id, client=client, customer_id=customer))
    assert (assignment.end, assignment.lifetime, assignment.renewable_after) == (None, 700_000, 350_000)

    device = AuthenticatedClient(url, token=os.environ["KEYRACK_DEVICE_KEY"], prefix="", auth_header_name="Device-Key")
    sample = Sample(
        serial_number=os.environ["KEYRACK_IQ"],
        car_data_read_time=datetime.now(UTC),
        current_latitude=52.52,
        current_longitude=13.405,
        odometer=48210.5,
    )
    delivered = wanted(Delivered, deliver_telemetry.sync(client=device, body=[sample]))
    assert (delivered.accepted, delivered.refused) == (1, [])
    location = wanted(Location, get_car_location.sync(car_id, client=client, customer_id=customer))
    assert (location.latitude, location.longitude, location.odometer) == ("52.52", "13.405", "48210.5")

    new_event = NewEvent("2026-05-01T10:15:00", start, user.id, car_id, "Python", type_=EventType.CAROPENED)
    event_id = wanted(Created, create_event.sync(client=client, customer_id=customer, body=new_event)).id
    found = list_events_of_car.sync(car_id, client=client, customer_id=customer, filter_=f"id eq {event_id}")
    (event,) = several(Event, found)
    assert (event.type_, event.date_time, event.latitude) == (EventType.CAROPENED, "2026-05-01T10:15:00", None)
    refused = get_car.sync(2_147_483_647, client=client, customer_id=customer)
    assert str(wanted(GetCarResponse404, refused).code) == "car-not-found"
    print("Python:", car.name, event.type_.value, outcome.type_.value)


main()
