"""Boxes that accept offline keys, and phones that carry them."""

from __future__ import annotations

from tests.recordings.bench import NONCE
from tests.recordings.cast import ALICE, claims
from tests.recordings.messages import Signer
from tests.recordings.script import Script


def phones(script: Script) -> None:
    """Requests for boxes that accept offline keys, and for phones that carry them."""
    fleet, app = script.fleet, script.cast.callers["app"]
    for product in (fleet.box, fleet.products["IQ-2001"], fleet.products["BX-LONE"], fleet.neighbour["productId"]):
        for part in (
            "enrolment",
            "status",
            f"provisioning?nonce={NONCE}",
            "provisioning",
            "provisioning?nonce=x",
            "status?generation=1",
            "status?generation=9",
            "status?epoch=1",
            "status?epoch=99",
        ):
            script.send("GET", f"/boxes/{product}/{part}")
    script.send("GET", f"/boxes/{fleet.box}/status", Accept="application/statuslist+cwt")
    key = Signer(900)
    for title, enrolment in (
        ("an unknown nonce", key.enrolment(NONCE)),
        ("no message", "AAAA"),
        ("no base64url", "*"),
        ("another message", key.registration("x", NONCE)),
    ):
        script.send("PUT", f"/boxes/{fleet.box}/enrolment", {"enrolment": enrolment}, note=title)
    phone = Signer(901)
    nonce = script.made("POST", "/sdk/devices/nonce", caller=app)["nonce"]
    for title, registration in (
        ("another subject", phone.registration("x", nonce)),
        ("no message", "AAAA"),
        ("an unknown nonce", phone.registration(fleet.subject, NONCE)),
        ("a good one", phone.registration(fleet.subject, nonce)),
        ("the same again", phone.registration(fleet.subject, nonce)),
    ):
        for protection in ("SecureElement", "Other"):
            body = {"registration": registration, "name": "Phone", "claimedProtection": protection}
            script.send("PUT", "/sdk/devices", body, caller=app, note=f"{title}, {protection}")
    other = script.cast.app("other app", fleet.users[1])
    subject = claims(other.headers["Authorization"])["sub"]
    body = {"registration": phone.registration(subject, NONCE), "name": "Phone"}
    script.send("PUT", "/sdk/devices", body, caller=other, note="of another user")
    for number in range(910, 920):
        nonce = script.made("POST", "/sdk/devices/nonce", caller=other)["nonce"]
        body = {"registration": Signer(number).registration(subject, nonce), "name": f"Phone {number}"}
        script.send("PUT", "/sdk/devices", body, caller=other, note=f"phone {number}")
    for query in ("", f"?device={phone.id}", f"?device={Signer(910).id}", "?device=x", f"?device={fleet.phone_key.id}"):
        for caller in (app, other):
            script.send("GET", f"/sdk/keys{query}", caller=caller)
    script.send("GET", f"/cars/{fleet.cars[0]}/keys?$orderby=device")
    first = fleet.log_entry
    entries = {
        "the first": first,
        "the first again": first,
        "one behind a gap": fleet.box_key.entry(fleet.box_name, 5, bytes([1]) * 32, seconds=1_500_000_100),
        "a fork": fleet.box_key.entry(fleet.box_name, 1, seconds=1_500_000_200),
        "a break": fleet.box_key.entry(fleet.box_name, 2, bytes([2]) * 32, seconds=1_500_000_300),
        "a forgery": Signer(1234).entry(fleet.box_name, 3, seconds=1_500_000_400),
        "one of no box": fleet.box_key.entry("box:999999:1", 1, seconds=1_500_000_500),
        "nonsense": "AAAA",
    }
    for title, entry in entries.items():
        script.send("PUT", "/sdk/boxlog", {"entries": [entry]}, caller=app, note=title)
        script.send("GET", f"/boxes/{fleet.box}/enrolment", note=f"after {title}")
    script.send("PUT", "/sdk/boxlog", {"entries": []}, caller=app)
    script.send("PUT", "/sdk/boxlog", {"entries": ["AAAA"] * 201}, caller=app)
    for box in (fleet.box_name, "box:999999:1", "x", ""):
        for nonce in (NONCE, "AAAA", "*"):
            script.send("POST", "/sdk/time", {"box": box, "nonce": nonce}, caller=app)
    script.send("DELETE", f"/sdk/devices/{Signer(910).id}", caller=app)
    script.send("DELETE", f"/sdk/devices/{Signer(910).id}", caller=other)
    script.send("DELETE", f"/users/{fleet.users[1]}/devices/{Signer(911).id}")
    script.send("GET", f"/cars/{fleet.cars[0]}/keys?$orderby=device", note="after the removals")
    for body in (
        {"sdkKey": "x"},
        {"userId": 999_999},
        {"customerId": 2},
        {"customerId": 99},
        {"sdkKey": script.cast.secrets["sdk key of bob"]},
    ):
        good = {"customerId": ALICE, "sdkKey": script.cast.secrets["sdk key"], "userId": fleet.users[0]}
        script.send("POST", "/sdk/token", good | body, note=", ".join(body))
