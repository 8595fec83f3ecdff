"""The fleet of the recorded requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.recordings.cast import ALICE, BOB, CAROL, Cast, claims, limit
from tests.recordings.messages import Signer
from tests.recordings.session import Call, Caller, Session

# Times in data are far from the present, so that no response depends on the clock
PAST, LATER, FUTURE = "2015-03-01T08:00:00Z", "2016-03-01T08:00:00Z", "2041-05-01T08:00:00Z"
CARS: list[dict[str, Any]] = [
    {
        "name": "Pool car 1",
        "licensePlate": "B-KR 1001",
        "vin": "WVWZZZ1KZ00000001",
        "brand": "VW",
        "model": "Golf",
        "description": "Parking deck 2",
    },
    {"name": "Pool car 2", "licensePlate": "B-KR 1002", "brand": "VW", "model": "Polo"},
    {"name": "Wagen Äöü ß", "brand": "Škoda", "model": "Octavia", "description": "Mit Anhängerkupplung"},
    {"name": "日本の車 🚗", "vin": "JT000000000000004"},
    {"name": "O'Neil's \"van\" 100% _x_ \\", "brand": "", "licensePlate": "O'N-1"},
    {"name": "<script>alert(1)</script>", "model": "&amp;", "brand": "Audi"},
    {"name": "pool CAR 7", "licensePlate": "b-kr 1007", "brand": "audi", "model": "A4"},
    {"name": "Only a name"},
]
USERS: list[dict[str, Any]] = [
    {"emailAddress": "uma.user@example.org", "userData": {"firstName": "Uma", "lastName": "User"}},
    {"emailAddress": "ben.driver@example.org", "userData": {"firstName": "Ben", "lastName": "Driver"}},
    {"emailAddress": "zoe@example.org", "userData": {"firstName": "Zoë", "lastName": "Müller-Lüdenscheidt"}},
    {"emailAddress": "taro@example.org", "userData": {"firstName": "太郎", "lastName": "山田"}},
    {
        "emailAddress": "pat.o'hara@example.org",
        "userData": {"firstName": "Pat", "lastName": "O'Hara"},
        "type": "Normal",
        "password": "a pass phrase of mine",
    },
]
GROUPS = ["North", "South", "Größe & Co", "Empty"]
INSTALLED = [(0, "BX-1001"), (1, "BX-1002"), (2, "BX-1003"), (0, "IQ-2001"), (3, "IQ-2002"), (7, "BX-BENCH")]
# Car, user, start, end. The last ones fail, because a box or a service is missing
ASSIGNMENTS: list[tuple[int, int, str, str | None]] = [
    (0, 0, PAST, None),
    (0, 1, "2041-01-01T00:00:00Z", "2041-01-02T00:00:00Z"),
    (1, 1, PAST, LATER),
    (1, 2, "2042-06-01T00:00:00+02:00", None),
    (2, 2, FUTURE, "2041-05-02T08:00:00Z"),
    (2, 3, "2043-01-01T00:00:00Z", "2043-12-31T23:59:59Z"),
    (7, 4, PAST, None),
    (3, 0, FUTURE, None),
    (5, 1, FUTURE, None),
]
EVENTS = [
    (0, 0, "CarOpened", "2017-05-01T10:15:00", "2017-05-01T08:15:00Z", 52.52, 13.405),
    (0, 0, "CarClosed", "2017-05-01T10:20:00+02:00", "2017-05-01T08:20:00.5Z", 52.53, 13.41),
    (1, 1, "CarOpened", "2017-06-01T00:00:00", "2017-06-01T00:00:00Z", None, None),
    (2, 2, "CarOpened", "2018-02-28T23:59:59.999", "2018-02-28T22:59:59.999Z", -33.9, 151.2),
    (2, 2, "CarClosed", "2018-03-01T00:01:00", "2018-02-28T23:01:00.123456Z", None, None),
]


class Fleet:
    """Two customers with their rows, made by recorded requests."""

    def __init__(self, session: Session, cast: Cast, receiver: str) -> None:
        self.session, self.cast, self.receiver = session, cast, receiver
        session.masks.name(receiver, "receiver")
        session.section = "Fleet"
        # A fixed time of day, so that samples are in the same intervals in every run
        morning = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0)
        self.anchor = morning - timedelta(days=2)
        owner = cast.owner
        self.cars = [self._make(owner, "/cars", body) for body in CARS]
        self.users = [self._make(owner, "/users", body) for body in USERS]
        self.groups = [self._make(owner, "/groups", {"name": name}) for name in GROUPS]
        self.products = {row["serialNumber"]: row["id"] for row in session.ask(owner, "GET", "/products")}
        self.services = {row["name"]: row["id"] for row in session.ask(owner, "GET", "/services")}
        self._link()
        for car, serial_number in INSTALLED:
            self._put(owner, "/installations", {"carId": self.cars[car], "serialNumber": serial_number})
        self.webhook = self._make(owner, "/webhooks", {"url": f"http://{receiver}/hook", "kinds": ["assignment.*"]})
        self.operations = [self._assign(*each) for each in ASSIGNMENTS]
        rows = session.ask(owner, "GET", "/assignments")
        self.assignments = [row["id"] for row in rows]
        self._events()
        self._telemetry()
        self.ids: dict[str, Any] = {}
        self.neighbour: dict[str, Any] = {}
        self._neighbour()
        limit(session, cast, self.groups[0])
        self._devices()
        self._collect()

    def moment(self, minutes: float) -> str:
        """A time of telemetry, `minutes` after the first one."""
        return (self.anchor + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _put(self, caller: Caller, path: str, body: Any) -> Any:
        return self.session.record(caller, Call("PUT", path, body), f"PUT {path} as {caller.name}")

    def _make(self, caller: Caller, path: str, body: Any) -> int:
        response = self._put(caller, path, body)
        assert response.status == 201, response.body
        return json.loads(response.body)["id"]

    def _link(self) -> None:
        """Put cars, users, products and services into groups."""
        owner, (north, south, third, _) = self.cast.owner, self.groups
        for group, cars, users in ((north, (0, 1), (0, 1)), (south, (1, 2, 3), (1,)), (third, (4,), (2, 3))):
            for car in cars:
                self._put(owner, f"/groups/{group}/cars", {"carId": self.cars[car]})
            for user in users:
                self._put(owner, f"/groups/{group}/users", {"userId": self.users[user]})
        for group, product, service in ((north, "BX-1001", "Box service 1"), (south, "IQ-2001", "Telemetry")):
            self._put(owner, f"/groups/{group}/products", {"productId": self.products[product]})
            self._put(owner, f"/groups/{group}/services", {"serviceId": self.services[service]})

    def _assign(self, car: int, user: int, start: str, end: str | None) -> str:
        body = {"carId": self.cars[car], "userId": self.users[user], "start": start, "end": end}
        response = self._put(self.cast.owner, "/assignments", body)
        return response.header("Operation-Id") or ""

    def _events(self) -> None:
        self.events: list[int] = []
        for car, user, kind, date_time, utc, latitude, longitude in EVENTS:
            body = {
                "carId": self.cars[car],
                "userId": self.users[user],
                "type": kind,
                "dateTime": date_time,
                "utcDateTime": utc,
                "latitude": latitude,
                "longitude": longitude,
                "userAgent": "ExampleApp/3.1",
            }
            self.events.append(self._make(self.cast.owner, "/events", body))

    def samples(self) -> list[dict[str, Any]]:
        """Readings of two units over two hours."""
        moving = [
            {
                "serialNumber": "IQ-2001",
                "carDataReadTime": self.moment(number * 10),
                "currentLatitude": 52.5 + number / 64,
                "currentLongitude": 13.25 + number / 32,
                "odometer": 48_000.5 + number,
                "currentSpeed": 50.0 + number,
                "isDriving": number < 11,
                "batteryVoltage": 12.5,
                "fuelLevelPercent": 80.0 - number,
            }
            for number in range(12)
        ]
        parked = {
            "uniqueId": "U-IQ-2002",
            "carDataReadTime": self.moment(5),
            "vin": "JT000000000000004",
            "ignition": False,
            "dtc": [{"key": "P0301", "value": "Cylinder 1 misfire"}],
            "currentLatitude": 35.68,
            "currentLongitude": 139.69,
        }
        return [*moving, parked]

    def _telemetry(self) -> None:
        gateway = self.cast.callers["gateway"]
        call = Call("POST", "/ingest/telemetry", self.samples())
        self.session.record(gateway, call, "telemetry of two units")

    def _neighbour(self) -> None:
        """Make the rows of the second customer."""
        bob, session = self.cast.bob, self.session
        ids: dict[str, Any] = self.neighbour
        ids["carId"] = self._make(bob, "/cars", {"name": "Bob's car", "brand": "VW"})
        user = {"emailAddress": "bobs.driver@example.org", "userData": {"firstName": "Bo", "lastName": "Driver"}}
        ids["userId"] = self._make(bob, "/users", user)
        ids["groupId"] = self._make(bob, "/groups", {"name": "North"})
        ids["productId"] = session.ask(bob, "GET", "/products")[0]["id"]
        ids["serviceId"] = session.ask(bob, "GET", "/services")[0]["id"]
        self._put(bob, "/installations", {"carId": ids["carId"], "serialNumber": "BX-BOB"})
        body = {"carId": ids["carId"], "userId": ids["userId"], "start": PAST}
        ids["operationId"] = self._put(bob, "/assignments", body).header("Operation-Id")
        ids["assignmentId"] = session.ask(bob, "GET", "/assignments")[0]["id"]
        event = {"dateTime": "2017-01-01T00:00:00", "utcDateTime": "2017-01-01T00:00:00Z", "userAgent": "x"}
        for _ in range(9):
            ids["eventId"] = self._make(bob, "/events", event | {"carId": ids["carId"], "userId": ids["userId"]})
        ids["webhookId"] = self._make(bob, "/webhooks", {"url": f"http://{self.receiver}/bob"})
        ids["deliveryId"] = session.ask(bob, "POST", f"/webhooks/{ids['webhookId']}/test")["id"]
        ids["managerId"] = self.cast.manager_ids["bob"]
        made = session.ask(bob, "PUT", "/managers", {"emailAddress": "bobs.guest@example.org", "role": "Viewer"})
        ids["invitationId"] = made["id"]
        made = session.ask(bob, "PUT", "/clients", {"name": "Bob's client", "scopes": ["cars:read"]})
        ids["clientId"] = made["id"]
        ids["secretId"] = session.ask(bob, "GET", f"/clients/{made['id']}/secrets")[0]["id"]

    def _devices(self) -> None:
        """Enrol a box and register a phone with keys for it."""
        session, owner = self.session, self.cast.owner
        self.box = self.products["BX-1001"]
        self.box_key, self.phone_key = Signer(1), Signer(2)
        app = self.cast.callers["app"] = self.cast.app("app", self.users[0])
        nonce = session.ask(owner, "POST", f"/boxes/{self.box}/enrolment")["nonce"]
        enrolled = session.ask(
            owner, "PUT", f"/boxes/{self.box}/enrolment", {"enrolment": self.box_key.enrolment(nonce)}
        )
        self.box_name = enrolled["name"]
        self.subject = claims(app.headers["Authorization"])["sub"]
        nonce = session.ask(app, "POST", "/sdk/devices/nonce")["nonce"]
        registration = self.phone_key.registration(self.subject, nonce)
        session.masks.name(registration, "registration of the phone")
        session.ask(app, "PUT", "/sdk/devices", {"registration": registration, "name": "Uma's phone"})
        session.ask(app, "GET", f"/sdk/keys?device={self.phone_key.id}")
        self.log_entry = self.box_key.entry(self.box_name, 1, seconds=1_500_000_000)
        session.masks.name(self.log_entry, "entry of the box")
        self.clients = {
            "client": self.cast.client("client", ["cars:read", "cars:write", "users:read"]).name,
        }
        self.checkpoint()

    def checkpoint(self) -> None:
        """Make a checkpoint of each change log now.

        Otherwise a worker would make one later.
        """
        self.session.installation.settle()
        for customer in (ALICE, BOB, CAROL):
            self.session.installation.run("audit", "checkpoint", "--customer", str(customer))

    def _collect(self) -> None:
        """Collect the ids for path parameters, by parameter name."""
        session, owner = self.session, self.cast.owner
        client = self.cast.manager_ids["client"]
        delivery = session.ask(owner, "POST", f"/webhooks/{self.webhook}/test")["id"]
        invited = session.ask(owner, "PUT", "/managers", {"emailAddress": "guest@example.org", "role": "Auditor"})
        forms = session.ask(owner, "GET", "/keys?$expand=keyForm")
        self.ids |= {
            "carId": self.cars[0],
            "userId": self.users[0],
            "groupId": self.groups[0],
            "productId": self.box,
            "serviceId": self.services["Box service 1"],
            "assignmentId": self.assignments[0],
            "eventId": self.events[0],
            "webhookId": self.webhook,
            "deliveryId": delivery,
            "operationId": self.operations[0],
            "managerId": self.cast.manager_ids["viewer"],
            "invitationId": invited["id"],
            "clientId": client,
            "secretId": session.ask(owner, "GET", f"/clients/{client}/secrets")[0]["id"],
            "changeId": 3,
            "deviceId": self.phone_key.id,
            "searchDate": self.moment(15),
            "brand": "VW",
            "keyFormId": forms[0].get("keyFormId", 1),
            "sessionId": 2147483647,
            "identityId": 2147483647,
            "passkeyId": 2147483647,
            "requestId": 2147483647,
        }
