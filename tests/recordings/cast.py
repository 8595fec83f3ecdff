"""The callers of a recording, made with an operator's commands."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.recordings.messages import decode_base64url
from tests.recordings.session import Call, Caller, Session
from tests.recordings.wire import HOST

PASSWORD = "correct horse battery staple"
ROLES = ("owner", "manager", "dispatcher", "technician", "auditor", "viewer")
MEMBERS = {role: role.capitalize() for role in ROLES[1:]} | {
    "limited": "Dispatcher",
    "roleless": "Viewer",
    "second factor": "Owner",
    "password": "Viewer",
    "changed": "Viewer",
}
SPARES = 6  # managers for removal
ALICE, BOB, CAROL = 1, 2, 3  # customers
KEY = "vendor-API-Key"

# As after an upgrade from a release without roles
WITHOUT_ROLE = "delete from manager_role where manager_id = $1"

PRODUCTS = [
    ("vendor Box", "BX-1001", "U-BX-1001", "SAP-BOX"),
    ("vendor Box", "BX-1002", "U-BX-1002", "SAP-BOX"),
    ("vendor Box", "BX-1003", "U-BX-1003", "SAP-BOX"),
    ("vendor IQ", "IQ-2001", "U-IQ-2001", "SAP-IQ"),
    ("vendor IQ", "IQ-2002", "U-IQ-2002", "SAP-IQ"),
    ("vendor Box", "BX-ö'%_", "U-日本", "SAP \\ 1"),
    ("vendor Box", "BX-SPARE", "U-BX-SPARE", "SAP-BOX"),
    ("vendor Box", "BX-LONE", "U-BX-LONE", "SAP-BOX"),
    ("vendor Box", "BX-BENCH", "U-BX-BENCH", "SAP-BOX"),
]
SERVICES = [
    {
        "name": "Box service 1",
        "productSerialNumber": "BX-1001",
        "orderNumber": "O-1",
        "documentNumber": "D-1",
        "orderPosition": "10",
        "start": "2015-01-01",
        "end": "2045-01-01",
        "termOfContract": "360",
        "termOfNotice": "3",
        "unitOfNotice": "Month",
    },
    {"name": "Box service 2", "productSerialNumber": "BX-1002"},
    {"name": "Box service 3", "productSerialNumber": "BX-1003"},
    {
        "name": "Telemetry",
        "productSerialNumber": "IQ-2001",
        "orderNumber": "O-2",
        "documentNumber": "D-2",
        "start": "2016-02-29",
        "end": "2016-12-31",
    },
    {"name": "Spare service", "productSerialNumber": "BX-SPARE"},
    {"name": "Zürich's 100 % _service_"},
    {"name": "Lone service"},
    {"name": "Bench service", "productSerialNumber": "BX-BENCH"},
]
BRANDS = [
    {"brand": "Audi", "keyForm": "A1", "boxName": "Box A", "boxSapNumber": "SAP-A"},
    {"brand": "Škoda", "keyForm": "S 1", "boxName": "Box S"},
    {"brand": "VW", "keyForm": "V1", "boxName": "Box V", "imageUrl": "https://example.com/v1.svg"},
    {"brand": "VW", "keyForm": "V2"},
]


def address(name: str) -> str:
    """The username of a manager."""
    return f"{name.replace(' ', '.')}@example.com"


def claims(token: str) -> dict[str, Any]:
    """The claims of a token."""
    return json.loads(decode_base64url(token.removeprefix("Bearer ").split(".")[1]))


class Cast:
    """All callers. Operator commands make them before the recording starts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._installation = session.installation
        self.callers: dict[str, Caller] = {}
        self.manager_ids: dict[str, int] = {}
        self.secrets: dict[str, str] = {}
        self.nobody = Caller("nobody")
        self._customers()
        self._products()
        self.secrets["api key"] = self._secret("api key", "apiKey", "api-key", "add", "Recordings")
        self.keyed = Caller("API key", {KEY: self.secrets["api key"]})
        self._watch()
        self._managers()
        self._devices()
        for name, customer in (("sdk key", ALICE), ("sdk key of bob", BOB)):
            self.secrets[name] = self._secret(name, "sdkKey", "sdk-key", "add", "--customer", str(customer))

    @property
    def owner(self) -> Caller:
        """The owner of the first customer, who makes rows for other callers."""
        return self.callers["owner"]

    @property
    def bob(self) -> Caller:
        """The owner of the second customer."""
        return self.callers["bob"]

    def sign_in(self, name: str, customer: int, username: str, password: str = PASSWORD) -> Caller:
        """A caller with the token of a manager."""
        form = urlencode({"grant_type": "password", "username": username, "password": password})
        return self._with_token(name, customer, self._session.ask(self.keyed, "POST", "/oauth2/token", form))

    def client(self, name: str, scopes: list[str]) -> Caller:
        """A caller with the token of a new machine client of the first customer."""
        body = {"name": f"Client {name}", "scopes": scopes}
        made = self._session.ask(self.owner, "PUT", "/clients", body)
        self._session.masks.name(made["clientSecret"], f"secret of {name}")
        self._session.masks.name(made["clientId"], f"id of {name}")
        self.manager_ids[name] = made["id"]
        return self._grant(name, ALICE, made)

    def app(self, name: str, user: int) -> Caller:
        """A caller with the id token of a user's app."""
        body = {"customerId": ALICE, "sdkKey": self.secrets["sdk key"], "userId": user}
        token = self._session.ask(self.owner, "POST", "/sdk/token", body)["id_token"]
        subject = claims(token)["sub"]
        self._session.masks.name(token, f"id token of {name}")
        self._session.masks.name(subject, f"subject of {name}")
        self._session.masks.name(subject.partition("-")[0], f"subject of {name}")  # the form of pages
        return Caller(name, {"Authorization": f"Bearer {token}"})

    def _with_token(self, name: str, customer: int, answer: Any) -> Caller:
        token = answer["access_token"]
        self._session.masks.name(token, f"token of {name}")
        headers = {**self.keyed.headers, "Authorization": f"Bearer {token}", "Customer-ID": str(customer)}
        return Caller(name, headers)

    def _secret(self, name: str, member: str, *arguments: str) -> str:
        """The secret that a command prints."""
        secret = self._installation.run(*arguments)[member]
        self._session.masks.name(secret, name)
        return secret

    def _watch(self) -> None:
        """Make the machine client with which the session observes the server's knowledge of access."""
        options = ["--customer", str(CAROL), "--scope", "customer:read"]
        made = self._installation.run("client", "add", "Canary", *options)
        caller = self._grant("canary", CAROL, made)
        self._session.watch(made["id"], caller)

    def _grant(self, name: str, customer: int, made: Any) -> Caller:
        """A caller with the token of a machine client."""
        form = {
            "grant_type": "client_credentials",
            "client_id": made["clientId"],
            "client_secret": made["clientSecret"],
        }
        return self._with_token(name, customer, self._session.ask(self.keyed, "POST", "/oauth2/token", urlencode(form)))

    def _customers(self) -> None:
        for name in ("Alice's fleet", "Bob Mobility", "Zoë & Söhne <GmbH>"):
            self._installation.run("customer", "add", name)

    def _products(self) -> None:
        columns = ("type", "serialNumber", "uniqueId", "sapNumber")
        self._import("products", ALICE, [dict(zip(columns, each, strict=True)) for each in PRODUCTS])
        self._import("services", ALICE, SERVICES)
        own = [("vendor Box", "BX-BOB", "U-BOB", "SAP"), ("vendor IQ", "IQ-BOB", "U-IQ-BOB", "SAP")]
        self._import("products", BOB, [dict(zip(columns, each, strict=True)) for each in own])
        self._import("services", BOB, [{"name": "Bob's service", "productSerialNumber": "BX-BOB"}])
        self._import("brands", None, BRANDS)

    def _import(self, what: str, customer: int | None, rows: list[dict[str, str]]) -> None:
        """Import rows of one kind from a file."""
        path = Path(self._installation.state) / f"{what}.csv"
        columns = list(dict.fromkeys(column for row in rows for column in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(text.getvalue(), "utf-8")
        options = [] if customer is None else ["--customer", str(customer)]
        self._installation.run("import", what, str(path), *options)

    def _managers(self) -> None:
        """Make managers: owners by operator commands, others by invitations of an owner."""
        for name, customers in (("owner", (ALICE,)), ("bob", (BOB,))):
            options = [each for customer in customers for each in ("--customer", str(customer))]
            command = ["manager", "add", address(name), *options, "--role", "owner", "--password", "-"]
            self.manager_ids[name] = self._installation.run(*command, input=PASSWORD + "\n")["id"]
            self.callers[name] = self.sign_in(name, customers[0], address(name))
        self._installation.run("manager", "change", address("owner"), "--customer", str(CAROL), "--role", "viewer")
        for name, role in (MEMBERS | {f"spare {number}": "Viewer" for number in range(SPARES)}).items():
            self._accept(
                self._session.ask(self.owner, "PUT", "/managers", {"emailAddress": address(name), "role": role})
            )
        first = self._session.ask(self.owner, "GET", "/changes?$orderby=id&$top=1")[0]
        self._session.masks.name(first["actor"]["name"], "user at host")
        rows = self._session.ask(self.owner, "GET", "/managers")
        self.manager_ids |= {name: row["id"] for name in MEMBERS for row in rows if row["username"] == address(name)}
        spares = [row["id"] for row in rows if row["username"].startswith("spare.")]
        self.manager_ids |= {f"spare {number}": each for number, each in enumerate(spares)}
        self._installation.execute(WITHOUT_ROLE, self.manager_ids["roleless"])
        for name in MEMBERS:
            self.callers[name] = self.sign_in(name, ALICE, address(name))

    def _accept(self, made: Any) -> None:
        """Accept an invitation as a new manager does on its page."""
        form = {"code": made["link"].partition("#")[2], "new": "yes", "new_password": PASSWORD}
        call = Call("POST", "/console/invitation/accept", urlencode(form), {"Origin": f"http://{HOST}"})
        response = self._session.send(self.nobody, call, base="")
        assert response.status == 303, response.body

    def _devices(self) -> None:
        both = ["--scope", "telemetry", "--scope", "events"]
        keys = {
            "gateway": ["--customer", str(ALICE), "--gateway", *both],
            "unit": ["--customer", str(ALICE), "--serial-number", "IQ-2001"],
            "gateway of bob": ["--customer", str(BOB), "--gateway", *both],
        }
        for name, options in keys.items():
            secret = self._secret(f"device key of {name}", "deviceKey", "device-key", "add", *options)
            self.callers[name] = Caller(name, {"Device-Key": secret})


def limit(session: Session, cast: Cast, group: int) -> None:
    """Limit one manager to a group."""
    steps = [{"op": "replace", "path": "/groups", "value": [group]}]
    session.ask(cast.owner, "PATCH", f"/managers/{cast.manager_ids['limited']}", steps)
