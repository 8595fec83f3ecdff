"""A successful request for every endpoint, with the rows that it needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tests.recordings.cast import ALICE, PASSWORD, SPARES, Cast, claims
from tests.recordings.fleet import PAST, Fleet
from tests.recordings.messages import Signer, encode_base64url
from tests.recordings.session import Call, Caller, Session
from tests.recordings.table import Row
from tests.recordings.wire import Response

NONCE = encode_base64url(bytes(16))
# Paths that remove rows of the bench
REMOVALS = {
    "car": "/cars/{}",
    "group": "/groups/{}",
    "webhook": "/webhooks/{}",
    "invitation": "/invitations/{}",
    "client": "/clients/{}",
    "assignment": "/assignments/{}",
}
GUESSES = {"POST /oauth2/token", "PUT /me/password", "PUT /me/totp"}  # endpoints with a limit on wrong secrets
GREATEST = 2147483647  # an id without a row
# Endpoints that use up their rows, besides those that delete
USES_UP = {
    "POST /users/{userId}/erase",
    "PUT /users/assignments/customers",
    "PUT /boxes/{productId}/enrolment",
    "PUT /clients/{clientId}/secrets",
    "POST /webhooks/{webhookId}/rotate-secret",  # two rotations within a second are recorded differently
}
Made = tuple[dict[str, Any], Any]  # path parameters, and the body


class Bench:
    """Makes the rows that a request needs, and removes its new rows."""

    def __init__(self, session: Session, cast: Cast, fleet: Fleet) -> None:
        self.session, self.cast, self.fleet = session, cast, fleet
        self._number = 0
        self._spares = [cast.manager_ids[f"spare {number}"] for number in range(SPARES)]
        self._kept: dict[str, Any] = {}
        self._used: set[str] = set()  # names of the rows for the latest call
        self._recipes: dict[str, Callable[[], Made]] = {
            "POST /oauth2/token": lambda: (
                {},
                self.form(grant_type="password", username="owner@example.com", password=PASSWORD),
            ),
            "POST /oauth2/revoke": lambda: ({}, self.form(token="nothing")),
            "PUT /cars": lambda: ({}, {"name": "Recorded car", "brand": "VW", "description": None}),
            "PATCH /cars/{carId}": lambda: ({"carId": self.car()}, replace("/model", "Estate")),
            "DELETE /cars/{carId}": lambda: ({"carId": self.car()}, None),
            "PUT /users": lambda: ({}, self.person()),
            "PUT /users/assignments/customers": self.removed_user,
            "DELETE /users/assignments/customers": lambda: ({}, {"userId": self.user()}),
            "GET /users/{userId}/erasure": lambda: ({"userId": self.user()}, None),
            "POST /users/{userId}/erase": lambda: ({"userId": self.user()}, None),
            "DELETE /users/{userId}/devices/{deviceId}": self.phone,
            "DELETE /users/{userId}/removed-devices": lambda: ({"userId": self.user()}, None),
            "PUT /assignments": lambda: ({}, self.wish()),
            "PATCH /assignments/{assignmentId}": lambda: (
                {"assignmentId": self.assignment()},
                replace("/end", "2060-01-01T00:00:00Z"),
            ),
            "DELETE /assignments/{assignmentId}": lambda: ({"assignmentId": self.assignment()}, None),
            "PUT /groups": lambda: ({}, {"name": f"Recorded group {self.number()}"}),
            "PATCH /groups/{groupId}": lambda: (
                {"groupId": self.group()},
                replace("/name", f"Renamed group {self.number()}"),
            ),
            "DELETE /groups/{groupId}": lambda: ({"groupId": self.group()}, None),
            "PUT /installations": lambda: ({}, self.installation(is_installed=False)),
            "DELETE /installations": lambda: ({}, self.installation(is_installed=True)),
            "PUT /pairings": lambda: ({}, self.pairing(is_paired=False)),
            "DELETE /pairings": lambda: ({}, self.pairing(is_paired=True)),
            "POST /sdk/token": lambda: (
                {},
                {
                    "customerId": ALICE,
                    "sdkKey": cast.secrets["sdk key"],
                    "userId": fleet.users[0],
                },
            ),
            "PUT /sdk/devices": lambda: (
                {},
                {
                    "registration": fleet.phone_key.registration(fleet.subject, NONCE),
                    "name": "Uma's phone",
                },
            ),
            "DELETE /sdk/devices/{deviceId}": self.own_phone,
            "PUT /sdk/boxlog": lambda: ({}, {"entries": [fleet.log_entry]}),
            "POST /sdk/time": lambda: ({}, {"box": fleet.box_name, "nonce": NONCE}),
            "POST /boxes/{productId}/enrolment": lambda: ({"productId": self.lone_box()}, None),
            "POST /boxes/{productId}/enrolment/approval": lambda: ({}, {"thumbprint": Signer(911).id}),
            "PUT /boxes/{productId}/enrolment": self.enrolment,
            "PUT /events": lambda: ({}, self.event()),
            "POST /ingest/events": lambda: ({}, [self.event() | {"clientId": f"recorded-{self.number()}"}]),
            "POST /ingest/telemetry": lambda: ({}, fleet.samples()[:1]),
            "PUT /driver-settings": lambda: (
                {},
                {"phone": "+49 221 5550123", "showsPlace": False, "extensionHours": 0},
            ),
            "POST /users/{userId}/app-invitation": lambda: ({"userId": 2147483647}, {"mail": False}),
            "POST /users/{userId}/lost-phones": lambda: ({"userId": 2147483647}, {}),
            "PUT /assignment-requests/{requestId}/decision": lambda: ({}, {"decision": "reject"}),
            "POST /batch": lambda: (
                {},
                {
                    "kind": "cars",
                    "dryRun": True,
                    "items": [{"op": "create", "body": {"name": "Batch"}}],
                },
            ),
            "PUT /webhooks": lambda: ({}, {"url": f"http://{fleet.receiver}/hook", "kinds": ["car.created"]}),
            "PATCH /webhooks/{webhookId}": lambda: ({"webhookId": self.webhook()}, replace("/kinds", ["car.deleted"])),
            "DELETE /webhooks/{webhookId}": lambda: ({"webhookId": self.webhook()}, None),
            "POST /webhooks/{webhookId}/rotate-secret": lambda: ({"webhookId": self.webhook()}, None),
            "POST /webhooks/{webhookId}/test": lambda: ({"webhookId": self.webhook()}, None),
            "POST /webhooks/{webhookId}/replay": lambda: (
                {"webhookId": self.webhook()},
                {"from": PAST, "to": FUTURE_END},
            ),
            "PUT /managers": lambda: ({}, {"emailAddress": f"guest.{self.number()}@example.org", "role": "Viewer"}),
            "DELETE /invitations/{invitationId}": lambda: ({"invitationId": self.invitation()}, None),
            "PATCH /managers/{managerId}": lambda: (
                {"managerId": cast.manager_ids["changed"]},
                replace("/role", "Auditor"),
            ),
            "DELETE /managers/{managerId}": lambda: ({"managerId": self.spare()}, None),
            "PUT /factor-rules": lambda: ({}, {"roles": []}),
            "PUT /clients": lambda: ({}, {"name": f"Recorded client {self.number()}", "scopes": ["cars:read"]}),
            "PATCH /clients/{clientId}": lambda: ({"clientId": self.client()}, replace("/name", "Renamed client")),
            "DELETE /clients/{clientId}": lambda: ({"clientId": self.client()}, None),
            "PUT /clients/{clientId}/secrets": lambda: ({"clientId": self.client()}, None),
            "DELETE /clients/{clientId}/secrets/{secretId}": self.client_secret,
            "PUT /me/preferences": lambda: ({}, {"language": "de", "timeZone": "Europe/Berlin", "theme": None}),
            "PUT /me/password": lambda: ({}, {"currentPassword": "not this one", "newPassword": "another pass phrase"}),
            "PUT /me/passkeys": lambda: ({}, {"name": "Laptop", "credential": {"id": "AAAA", "type": "public-key"}}),
            "PUT /me/totp": lambda: ({}, {"code": "000000"}),
        }
        for kind in ("car", "user", "service", "product"):
            self._recipes[f"PUT /groups/{{groupId}}/{kind}s"] = self._linking(kind, is_linked=False)
            self._recipes[f"DELETE /groups/{{groupId}}/{kind}s/{{{kind}Id}}"] = self._linking(kind, is_linked=True)

    def call(self, row: Row, *, ids: dict[str, Any] | None = None) -> Call:
        """The successful request of an endpoint. `ids` replace parameters of its path."""
        self._used.clear()
        path_ids, body = self._recipes[row.name]() if row.name in self._recipes else ({}, None)
        values = {**self.fleet.ids, **path_ids, **(ids or {})}
        method = "HEAD" if row.path == "/live" else row.method
        # Each guess has a different address, so that no limit on guesses depends on the time between them
        headers: dict[str, str | None] = (
            {"X-Forwarded-For": f"198.51.100.{self.number() % 250}"} if row.name in GUESSES else {}
        )
        return Call(method, row.path.format(**values) + self.query(row), body, headers)

    def caller(self, row: Row) -> Caller:
        """The caller for whom the request succeeds."""
        if "device" in row.schemes:
            return self.cast.callers["gateway"]
        if "sdkToken" in row.schemes:
            return self.cast.callers["app"]
        if "oauth2" in row.schemes:
            return self.cast.owner
        return self.cast.keyed if "apiKey" in row.schemes else self.cast.nobody

    def query(self, row: Row) -> str:
        """The query that the endpoint needs."""
        match row.name:
            case "GET /sdk/keys":
                return f"?device={self.fleet.phone_key.id}"
            case "GET /operations":  # ids of operations are random
                return "?$orderby=applied"
            case "GET /boxes/{productId}/provisioning":
                return f"?nonce={NONCE}"
            case "GET /cars/available":
                return f"?from={self.fleet.moment(0)}&to={self.fleet.moment(240)}"
            case "GET /cars/{carId}/track" | "GET /cars/{carId}/samples":
                fields = "&fields=odometer,currentSpeed" if row.path.endswith("samples") else ""
                return f"?from={self.fleet.moment(0)}&to={self.fleet.moment(240)}{fields}&points=8"
            case _:
                return ""

    def clean_up(self, row: Row, response: Response) -> None:
        """Remove a row that a request made. Forget a row it used up."""
        if response.status >= 300 or row.method == "GET":
            return
        if row.method == "DELETE" or row.name in USES_UP:
            for name in self._used:
                self._drop(name, self._kept.pop(name, None))
        if row.name == "DELETE /managers/{managerId}":
            self._spares.pop(0)
        kind = row.name.removeprefix("PUT /").removesuffix("s")
        made = json.loads(response.body) if response.status == 201 else {}
        if row.name == "PUT /managers":
            self._drop("invitation", made["id"])
        elif made and (kind in REMOVALS or kind == "user"):
            self._drop(kind, made["id"])
        elif row.name == "PUT /assignments":
            self._drop("assignment", self._outcome(response))

    def number(self) -> int:
        """The next number for a unique name."""
        self._number += 1
        return self._number

    @staticmethod
    def form(**members: str) -> str:
        """A body of the token endpoint."""
        return urlencode(members)

    # Rows that are made once and kept until a request uses them up

    def _keep(self, name: str, make: Callable[[], Any]) -> Any:
        self._used.add(name)
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def _drop(self, name: str, value: Any) -> None:
        """Remove a row that is not needed any more, if it exists."""
        if name in REMOVALS:
            self._remove(REMOVALS[name].format(value))
        elif name == "user":
            self._remove("/users/assignments/customers", {"userId": value})

    def _outcome(self, response: Response) -> int:
        """The assignment of an operation."""
        return self._ask("GET", f"/operations/{response.header('Operation-Id')}")["assignmentId"]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.session.ask(self.cast.owner, method, path, body)

    def _remove(self, path: str, body: Any = None) -> None:
        self.session.send(self.cast.owner, Call("DELETE", path, body))

    def car(self) -> int:
        """A car without dependent rows."""
        return self._keep("car", lambda: self._ask("PUT", "/cars", {"name": "Bench car"})["id"])

    def person(self) -> dict[str, Any]:
        """The body of a new user."""
        data = {"firstName": "Kim", "lastName": "Doe"}
        return {"emailAddress": f"kim.doe.{self.number()}@example.org", "userData": data}

    def user(self) -> int:
        """A user without dependent rows."""
        return self._keep("user", lambda: self._ask("PUT", "/users", self.person())["id"])

    def removed_user(self) -> Made:
        """The address of a user that the customer has removed."""

        def make() -> str:
            person = self.person()
            user = self._ask("PUT", "/users", person)["id"]
            self._remove("/users/assignments/customers", {"userId": user})
            return person["emailAddress"]

        return {}, {"emailAddress": self._keep("removed user", make)}

    def group(self) -> int:
        """An empty group."""
        name = {"name": f"Bench group {self.number()}"}
        return self._keep("group", lambda: self._ask("PUT", "/groups", name)["id"])

    def wish(self) -> dict[str, Any]:
        """The body of a new assignment."""
        start = f"2050-01-{self.number() % 28 + 1:02}T08:00:00Z"
        return {
            "carId": self.fleet.cars[7],
            "userId": self.fleet.users[3],
            "start": start,
            "end": "2051-01-01T00:00:00Z",
        }

    def assignment(self) -> int:
        """An assignment in the future."""

        def make() -> int:
            return self._outcome(self.session.send(self.cast.owner, Call("PUT", "/assignments", self.wish())))

        return self._keep("assignment", make)

    def installation(self, *, is_installed: bool) -> dict[str, Any]:
        """A spare box and a car, with or without the box installed."""
        body = {"carId": self.car(), "serialNumber": "BX-SPARE"}
        row = self._ask("GET", f"/products/{self.fleet.products['BX-SPARE']}?$expand=car")
        car = (row.get("car") or {}).get("id")
        if car is not None and (not is_installed or car != body["carId"]):
            self._remove("/installations", {**body, "carId": car})
            car = None
        if is_installed and car is None:
            self._ask("PUT", "/installations", body)
        return body

    def pairing(self, *, is_paired: bool) -> dict[str, Any]:
        """A service and a box, paired or not."""
        body = {"serviceId": self.fleet.services["Lone service"], "serialNumber": "BX-LONE"}
        paired = self._ask("GET", f"/services/{body['serviceId']}")["productId"] is not None
        if paired != is_paired:
            self._ask("PUT" if is_paired else "DELETE", "/pairings", body)
        return body

    def _linking(self, kind: str, *, is_linked: bool) -> Callable[[], Made]:
        """A group and a row that is or is not a member of it."""

        def make() -> Made:
            own: dict[str, Callable[[], int]] = {
                "car": self.car,
                "user": self.user,
                "service": lambda: self.fleet.services["Lone service"],
                "product": lambda: self.fleet.products["BX-LONE"],
            }
            group = self.fleet.groups[3]
            value = own[kind]()
            body = {f"{kind}Id": value}
            path = f"/groups/{group}/{kind}s"
            if is_linked:
                self.session.send(self.cast.owner, Call("PUT", path, body))
            else:
                self._remove(f"{path}/{value}")
            return {"groupId": group, **body}, None if is_linked else body

        return make

    def phone(self) -> Made:
        """A user's phone for removal by a manager."""

        def make() -> dict[str, Any]:
            number = self.number()
            user = self.user()
            app = self.cast.app(f"app {number}", user)
            return {"userId": user, "deviceId": self._register(app, number)}

        return self._keep("phone", make), None

    def own_phone(self) -> Made:
        """A second phone of the app's user.

        The previous phone was removed, so that it needs a new key and a new id token.
        """

        def make() -> str:
            app = self.cast.callers["app"] = self.cast.app("app", self.fleet.users[0])
            return self._register(app, self.number())

        return {"deviceId": self._keep("own phone", make)}, None

    def _register(self, app: Caller, number: int) -> str:
        key = Signer(100 + number)
        subject = claims(app.headers["Authorization"])["sub"]
        nonce = self.session.ask(app, "POST", "/sdk/devices/nonce")["nonce"]
        body = {"registration": key.registration(subject, nonce), "name": "Second phone"}
        self.session.ask(app, "PUT", "/sdk/devices", body)
        return key.id

    def lone_box(self) -> int:
        """A box without an enrolment."""
        return self.fleet.products["BX-LONE"]

    def enrolment(self) -> Made:
        """A box's answer to a nonce."""

        def make() -> str:
            nonce = self._ask("POST", f"/boxes/{self.fleet.products['BX-BENCH']}/enrolment")["nonce"]
            return Signer(500 + self.number()).enrolment(nonce)

        return {"productId": self.fleet.products["BX-BENCH"]}, {"enrolment": self._keep("enrolment", make)}

    def event(self) -> dict[str, Any]:
        """The body of a new event."""
        return {
            "carId": self.fleet.cars[4],
            "userId": self.fleet.users[2],
            "type": "CarClosed",
            "userAgent": "recordings",
            "dateTime": "2019-01-01T01:00:00",
            "utcDateTime": "2019-01-01T00:00:00Z",
        }

    def webhook(self) -> int:
        """A webhook that gets no event of the recorded requests."""
        body = {"url": f"http://{self.fleet.receiver}/bench", "kinds": ["customer.updated"]}
        return self._keep("webhook", lambda: self._ask("PUT", "/webhooks", body)["id"])

    def invitation(self) -> int:
        """An open invitation."""
        body = {"emailAddress": f"guest.{self.number()}@example.org", "role": "Viewer"}
        return self._keep("invitation", lambda: self._ask("PUT", "/managers", body)["id"])

    def spare(self) -> int:
        """A manager that no other request needs."""
        return self._spares[0] if self._spares else GREATEST

    def client(self) -> int:
        """A machine client with one secret."""
        body = {"name": f"Bench client {self.number()}", "scopes": ["cars:read"]}
        return self._keep("client", lambda: self._ask("PUT", "/clients", body)["id"])

    def client_secret(self) -> Made:
        """A secret of a machine client."""
        client = self.client()
        return {"clientId": client, "secretId": self._ask("GET", f"/clients/{client}/secrets")[0]["id"]}, None


FUTURE_END = "2044-01-01T00:00:00Z"


def replace(path: str, value: Any) -> list[dict[str, Any]]:
    """A patch with one step."""
    return [{"op": "replace", "path": path, "value": value}]
