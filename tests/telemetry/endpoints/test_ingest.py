"""Ingest of telemetry over HTTP, and the reads of a car afterwards."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from keyrack.core import secret_hashes
from keyrack.core.error_codes import INVALID_DEVICE_KEY
from keyrack.fleet.endpoints.cars import NO_CAR, NO_TELEMETRY
from keyrack.telemetry.ingest import TOO_EARLY, TOO_LATE, UNKNOWN_UNIT
from tests.support.invalid_timestamps import NO_MOMENTS_OF_BODIES
from tests.support.people import Person, refused
from tests.support.servers import eventually

_numbers = itertools.count(1)
NOW = datetime.now(UTC).replace(microsecond=0)


def ago(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def passed() -> float:
    """Minutes since `NOW`, the start of the test run."""
    return (datetime.now(UTC) - NOW) / timedelta(minutes=1)


@dataclass
class Unit:
    """An IQ unit in a person's car, and its deliveries."""

    person: Person
    car: int
    serial: str
    key: str

    def sample(self, minutes: float, **values: Any) -> dict[str, Any]:
        return {"serialNumber": self.serial, "carDataReadTime": ago(minutes), **values}

    def deliver(self, *samples: Any, **options: Any) -> httpx.Response:
        body = "\n".join(json.dumps(sample) for sample in samples)
        headers = {"Device-Key": self.key, "Content-Type": "application/x-ndjson"} | options.pop("headers", {})
        content = options.pop("content", body)
        return self.person.client.post("/ingest/telemetry", content=content, headers=headers)

    def tell(self, minutes: float, **values: Any) -> dict[str, Any]:
        answer = self.deliver(self.sample(minutes, **values))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, rest: str) -> dict[str, Any]:
        answer = self.person.get(f"/cars/{self.car}/{rest}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def told(self, member: str) -> Any:
        """The newest value of the car's telemetry; None without telemetry."""
        answer = self.person.get(f"/cars/{self.car}/telemetry")
        return answer.json()[member] if answer.status_code == 200 else None

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = self.person.sql.rows(
            f"select * from {table} where customer_id = $1 and car_id = $2 order by at", self.person.customer, self.car
        )
        return [tuple(row)[2:] for row in found]

    def readings(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        """All stored readings, one per row: the time and the values."""
        found = self.person.sql.rows(
            f"select n.at, {columns} from {table} h, packed_times(h.at, h.times) n(at)"
            " where customer_id = $1 and car_id = $2"
            f" union all select n.at, {columns} from car_state, packed_times({table}_since, {table}_times) n(at)"
            " where customer_id = $1 and car_id = $2 order by 1",
            self.person.customer,
            self.car,
        )
        return [tuple(row) for row in found]

    def odometers(self) -> list[float]:
        return [row[1] for row in self.readings("odometer", "odometer")]

    def positions(self) -> list[tuple[Any, ...]]:
        return self.readings("position", "latitude, longitude")


def device_key(person: Person, serial: str | None = None, *scopes: str) -> str:
    """A device key for the unit with this serial number, or for all units. Without `scopes` it has both."""
    secret = secret_hashes.new_secret()
    person.sql.execute(
        "insert into device_key (customer_id, hash, is_gateway, product_id, scopes) values ($1, $2, $3,"
        " (select product_id from product where customer_id = $1 and serial_number = $4), $5)",
        person.customer, secret_hashes.digest(secret), serial is None, serial, list(scopes or ("telemetry", "events")),
    )  # fmt: skip
    return secret


def unit_of(person: Person, serial: str | None = None) -> Unit:
    serial = serial or f"IQ{next(_numbers)}"
    car = person.car()
    product = person.product("IQ", serial_number=serial, unique_id=f"unique-{serial}")
    person.service(product)
    assert person.put("/installations", {"carId": car, "productId": product}).status_code == 204
    return Unit(person, car, serial, device_key(person))


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


ACCEPTED = {"accepted": 1, "duplicates": 0, "refused": []}
DUPLICATE = {"accepted": 0, "duplicates": 1, "refused": []}


def refusal(reason: str) -> dict[str, Any]:
    return {"accepted": 0, "duplicates": 0, "refused": [{"line": 1, "reason": reason}]}


def test_reads_show_the_values_of_a_sample(unit: Unit) -> None:
    values = {
        "currentLatitude": 52.52, "currentLongitude": 13.405, "odometer": 1234.5, "rpm": 2100, "isDriving": True,
        "currentSpeed": 48.5, "fuelLevelPercent": 71, "vin": "W0L000051T2123456", "fuelType": "Diesel",
        "dtc": [{"key": "P0300", "value": "misfire"}], "chargeState": False,
    }  # fmt: skip
    assert unit.tell(5, **values) == ACCEPTED
    telemetry = unit.get("telemetry")
    assert {name: telemetry[name] for name in values} == values
    assert telemetry["carDataReadTime"] == ago(5)
    assert telemetry["deviceSerialNumber"] == unit.serial
    assert telemetry["oilLevel"] is None
    place = {
        "latitude": "52.52", "longitude": "13.405", "date": ago(5), "odometerDate": ago(5), "odometer": "1234.5",
    }  # fmt: skip
    assert unit.get("location") == place
    assert unit.get(f"location/{ago(600)}") == place


TELEMETRY = """
selectedCulture deviceSerialNumber vin odometer rpm dtc isDriving carDataReadTime isHybrid chargeState ignition
driverSeatbelt isTractionControlActive isCruiseControlActive isCruiseControlEnabled isParkingBrakeEngaged
isLeftTurnSignalActive isRightTurnSignalActive fuelType timeToNextService fuelConsumption totalFuelUsed fuelLevelVolume
fuelLevelPercent engineHours distanceToNextService adBlueLevel fuelFilterLifeRemaining oilLevel oilTemperature
oilLifeRemaining transmissionOilTemperature engineTemperature engineCoolantTemperature batteryVoltage currentLongitude
currentLatitude currentSpeed tirePressureFrontLeft tirePressureFrontRight tirePressureRearLeft tirePressureRearRight
interiorTemperature outsideTemperature frontBrakeLifeRemaining rearBrakeLifeRemaining
""".strip().split()


def test_missing_telemetry_is_null_or_zero(unit: Unit) -> None:
    """A6: every member of the spec is present; members that are not nullable are 0 or false."""
    refused(unit.person.get(f"/cars/{unit.car}/telemetry"), 404, NO_TELEMETRY)
    unit.tell(1)
    never = {"odometer": 0, "rpm": 0, "isDriving": False, "dtc": []}
    assert unit.get("telemetry") == dict.fromkeys(TELEMETRY) | never | {
        "deviceSerialNumber": unit.serial, "carDataReadTime": ago(1),
    }  # fmt: skip
    assert unit.get("telemetry?$select=rpm,odometer") == {"rpm": 0, "odometer": 0}
    assert unit.get("location") == dict.fromkeys(("latitude", "longitude", "date", "odometerDate", "odometer"))


def test_a_new_unit_shows_no_values_of_the_old_one(unit: Unit, bob: Person) -> None:
    """A6: readings of the old unit remain in the car's history, and are only found by date."""
    alice, nothing = unit.person, dict.fromkeys(("latitude", "longitude", "date", "odometerDate", "odometer"))
    for minutes in (9, 8):
        unit.tell(minutes, currentLatitude=1, currentLongitude=2, odometer=3, oilLevel=4, rpm=5, isDriving=True)
    old = alice.get(f"/cars/{unit.car}/products").json()[0]["id"]
    serial = f"IQ{next(_numbers)}"
    alice.service(alice.product("IQ", serial_number=serial))
    assert alice.delete("/installations", {"carId": unit.car, "productId": old}).status_code == 204
    assert alice.put("/installations", {"carId": unit.car, "serialNumber": serial}).status_code == 204
    new = Unit(alice, unit.car, serial, unit.key)
    refused(alice.get(f"/cars/{unit.car}/telemetry"), 404, NO_TELEMETRY)
    refused(bob.get(f"/cars/{unit.car}/telemetry"), 404, NO_CAR)
    assert new.get("location") == nothing
    assert new.get(f"location/{ago(8.1)}")["date"] == ago(8)
    assert new.tell(8.5, fuelLevelPercent=50) == ACCEPTED
    telemetry = new.get("telemetry")
    shown = {name: value for name, value in telemetry.items() if value is not None}
    assert shown == {
        "deviceSerialNumber": serial, "carDataReadTime": ago(8.5), "fuelLevelPercent": 50,
        "odometer": 0, "rpm": 0, "isDriving": False, "dtc": [],
    }  # fmt: skip
    assert new.get("location") == nothing
    new.tell(8.5, odometer=7)  # before the last reading of the old unit
    assert (new.get("location")["odometer"], new.get("telemetry")["odometer"]) == ("7", 7)
    assert unit.odometers() == [3, 7, 3]
    assert new.get(f"location/{ago(9)}") == {
        "latitude": "1", "longitude": "2", "date": ago(9), "odometerDate": ago(9), "odometer": "3",
    }  # fmt: skip


def test_an_array_and_gzip_are_accepted(unit: Unit) -> None:
    samples = [unit.sample(n, odometer=100 - n) for n in (3, 2, 1)]
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = unit.deliver(content=gzip.compress(json.dumps(samples).encode()), headers=headers)
    assert answer.json() == {"accepted": 3, "duplicates": 0, "refused": []}
    assert unit.get("location")["odometer"] == "99"


def test_the_unique_id_identifies_a_unit(unit: Unit) -> None:
    sample = {"uniqueId": f"unique-{unit.serial}", "carDataReadTime": ago(1), "odometer": 7}
    assert unit.deliver(sample).json() == ACCEPTED
    assert unit.get("location")["odometer"] == "7"


def test_a_repeated_delivery_changes_nothing(unit: Unit) -> None:
    samples = [
        unit.sample(n, odometer=100 - n, currentLatitude=50 + n / 100, currentLongitude=8, rpm=n) for n in (4, 3, 2, 1)
    ]
    assert unit.deliver(*samples).json()["accepted"] == 4
    before = unit.positions(), unit.odometers(), unit.get("telemetry")
    assert before[1] == [96, 97, 98, 99]
    assert unit.deliver(*samples, samples[1]).json() == {"accepted": 0, "duplicates": 5, "refused": []}
    assert (unit.positions(), unit.odometers(), unit.get("telemetry")) == before


def test_two_samples_of_the_same_time_in_one_delivery_count_once(unit: Unit) -> None:
    unit.tell(1, odometer=10)
    answer = unit.deliver(unit.sample(5, odometer=4), unit.sample(5, odometer=4))
    assert answer.json() == {"accepted": 1, "duplicates": 1, "refused": []}


def test_late_data_goes_into_history_and_replaces_nothing_newer(unit: Unit) -> None:
    unit.tell(10, currentLatitude=50, currentLongitude=8, odometer=100, rpm=3000, fuelLevelPercent=50)
    assert unit.tell(20, currentLatitude=49, currentLongitude=7, odometer=90, rpm=1000, oilLevel=3) == ACCEPTED
    telemetry = unit.get("telemetry")
    assert (telemetry["rpm"], telemetry["odometer"], telemetry["carDataReadTime"]) == (3000, 100, ago(10))
    assert telemetry["oilLevel"] == 3, "nothing newer is known of it"
    assert unit.get("location")["latitude"] == "50"
    assert unit.get(f"location/{ago(19)}") == {
        "latitude": "49", "longitude": "7", "date": ago(20), "odometerDate": ago(20), "odometer": "90",
    }  # fmt: skip
    assert unit.tell(20, currentLatitude=49, currentLongitude=7, odometer=90, rpm=1000, oilLevel=3) == DUPLICATE


def test_each_value_is_as_new_as_its_own_time(unit: Unit) -> None:
    unit.tell(30, fuelType="1", rpm=1)
    unit.tell(10, rpm=3)
    assert unit.tell(20, fuelType="2", rpm=2) == ACCEPTED
    telemetry = unit.get("telemetry")
    assert (telemetry["fuelType"], telemetry["rpm"]) == ("2", 3)
    assert unit.tell(25, fuelType="9") == DUPLICATE
    assert unit.get("telemetry")["fuelType"] == "2"


def test_position_and_odometer_are_found_separately(unit: Unit) -> None:
    unit.tell(60, currentLatitude=1, currentLongitude=1)
    unit.tell(50, odometer=5)
    unit.tell(10, currentLatitude=2, currentLongitude=2)
    found = unit.get(f"location/{ago(40)}")
    assert (found["latitude"], found["date"]) == ("1", ago(60))
    assert (found["odometer"], found["odometerDate"]) == ("5", ago(50))
    assert unit.get(f"location/{ago(30)}")["latitude"] == "2", "the nearest may lie after the date"


def test_samples_of_the_same_time_are_merged(unit: Unit) -> None:
    unit.deliver(unit.sample(5, odometer=4, rpm=1), unit.sample(5, currentLatitude=1, currentLongitude=2, oilLevel=3))
    assert unit.tell(5, rpm=2, odometer=5) == DUPLICATE, "of two the first one counts"
    telemetry = unit.get("telemetry")
    told = ("odometer", "rpm", "currentLatitude", "oilLevel")
    assert [telemetry[name] for name in told] == [4, 1, 1, 3]


NO_TIME = (
    "`carDataReadTime` must be a time in the format of RFC 3339, such as 2026-01-31T08:00:00Z"
    " or 2026-01-31T09:00:00+01:00, but is "
)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"currentLatitude": 95, "currentLongitude": 8},
            "`currentLatitude` must be at most 90, but is 95.",
        ),
        ({"currentLatitude": 50}, "`currentLatitude` and `currentLongitude` must be given together."),
        ({"fuelLevelPercent": 101}, "`fuelLevelPercent` must be at most 100, but is 101."),
        ({"rpm": 1.5}, "`rpm` must be an integer, but is 1.5."),
        ({"odometer": "7"}, "`odometer` must be a number, but is a string."),
        ({"colour": "red"}, "There is no property 'colour'."),
        ({"carDataReadTime": "yesterday"}, NO_TIME + "'yesterday'."),
        ({"carDataReadTime": 1767261600}, NO_TIME + "1767261600."),
        ({"carDataReadTime": ago(-60 * 30)}, TOO_LATE),
        ({"carDataReadTime": ago(60 * 24 * 401)}, TOO_EARLY),
        ({"serialNumber": "nobody"}, UNKNOWN_UNIT),
        ({"serialNumber": None}, "The sample has neither `serialNumber` nor `uniqueId`."),
        ({"uniqueId": "x"}, "A sample must have `serialNumber` or `uniqueId`, not both."),
    ],
)  # fmt: skip
def test_only_the_invalid_line_is_rejected(unit: Unit, values: dict[str, Any], reason: str) -> None:
    answer = unit.deliver(unit.sample(1) | values, unit.sample(2, rpm=5))
    assert answer.json() == {"accepted": 1, "duplicates": 0, "refused": [{"line": 1, "reason": reason}]}
    assert unit.get("telemetry")["rpm"] == 5


@pytest.mark.parametrize(
    ("members", "repeated"),
    [
        ('"rpm": 1, "rpm": 2', "rpm"),
        ('"rpm": null, "rpm": 2', "rpm"),
        ('"rpm" :1,"rpm" :1', "rpm"),
        ('"vin": null, "vin": "V"', "vin"),
        ('"vin": "V", "vin": null', "vin"),
        ('"rpm": 1, "\\u0072pm": 2', "rpm"),
        ('"vin": "\\"", "vin": "\\""', "vin"),
        ('"dtc": [], "dtc": [{"key": "P0", "value": "x"}]', "dtc"),
        ('"dtc": [{"key": "P0", "value": "x"}, {"key": "P1", "value": "x", "key": "P2"}]', "key"),
    ],
)
@pytest.mark.parametrize("form", ["%s\n%s", "[%s, %s]"], ids=["lines", "array"])
def test_a_repeated_member_is_refused(unit: Unit, form: str, members: str, repeated: str) -> None:
    """RFC 8259, section 4: programs disagree about which of the values counts."""
    line = json.dumps(unit.sample(1))[:-1] + f", {members}}}"
    good = json.dumps(unit.sample(2, rpm=5, vin='a "quoted" text', dtc=[{"key": "P0", "value": '"'}], fuelType=None))
    report = unit.deliver(content=(form % (line, good)).encode()).json()
    reason = f"The property '{repeated}' is given more than once."
    assert report == {"accepted": 1, "duplicates": 0, "refused": [{"line": 1, "reason": reason}]}
    assert unit.get("telemetry")["vin"] == 'a "quoted" text'


def test_exactly_the_times_of_rfc_3339_are_accepted(unit: Unit) -> None:
    """A4: as docs/telemetry.md describes."""
    day = ago(60 * 24 * 3)[:10]
    taken = {
        f"{day}T10:00:00Z": f"{day}T10:00:00Z",
        f"{day}t10:00:01.5z": f"{day}T10:00:01.5Z",
        f"{day}T10:00:02.1234567890123456789Z": f"{day}T10:00:02.123456Z",
        f"{day}T12:00:03+02:00": f"{day}T10:00:03Z",
        f"{day}T10:00:04-00:00": f"{day}T10:00:04Z",
    }
    for sent, shown in taken.items():
        assert unit.deliver({"serialNumber": unit.serial, "carDataReadTime": sent, "rpm": 1}).json() == ACCEPTED
        assert unit.get("telemetry")["carDataReadTime"] == shown
    month = NOW.replace(day=1, hour=0, minute=0, second=0)
    leap = f"{month - timedelta(days=1):%Y-%m-%d}T23:59:60Z"
    assert unit.deliver({"serialNumber": unit.serial, "carDataReadTime": leap, "odometer": 1}).json() == ACCEPTED
    assert unit.get("location")["odometerDate"] == f"{month:%Y-%m-%d}T00:00:00Z"
    samples = [{"serialNumber": unit.serial, "carDataReadTime": time} for time in NO_MOMENTS_OF_BODIES]
    refused = unit.deliver(*samples).json()["refused"]
    assert len(refused) == len(NO_MOMENTS_OF_BODIES)
    assert {entry["reason"].startswith(NO_TIME) for entry in refused} == {True}


def test_only_lines_that_are_not_objects_are_rejected(unit: Unit) -> None:
    body = b'{"broken\n\n[1]\n7\n' + json.dumps(unit.sample(1, rpm=1)).encode()
    report = unit.deliver(content=body).json()
    assert (report["accepted"], [entry["line"] for entry in report["refused"]]) == (1, [1, 3, 4])


def test_a_sample_needs_a_read_time(unit: Unit) -> None:
    assert unit.deliver({"serialNumber": unit.serial}).json() == refusal("`carDataReadTime` is missing.")


def test_only_installed_iq_units_may_deliver(alice: Person, unit: Unit) -> None:
    box = f"box{next(_numbers)}"
    product = alice.product("Box", serial_number=box)
    alice.service(product)
    alice.put("/installations", {"carId": unit.car, "productId": product})
    spare = f"spare{next(_numbers)}"
    alice.product("IQ", serial_number=spare)
    for serial in (box, spare):
        assert unit.deliver(unit.sample(1) | {"serialNumber": serial}).json() == refusal(UNKNOWN_UNIT)


def test_units_of_another_customer_are_unknown(unit: Unit, bob: Person) -> None:
    answer = Unit(bob, 0, unit.serial, device_key(bob)).deliver(unit.sample(1, rpm=1))
    assert answer.json() == refusal(UNKNOWN_UNIT)
    assert bob.get(f"/cars/{unit.car}/telemetry").status_code == 404


def test_a_device_key_is_needed_and_can_be_revoked(unit: Unit) -> None:
    for headers in ({"Device-Key": ""}, {"Device-Key": "wrong"}, unit.person.headers | {"Device-Key": "wrong"}):
        answer = unit.deliver(unit.sample(1), headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"statusCode": 401, "message": INVALID_DEVICE_KEY.text})
    assert unit.tell(2) == ACCEPTED
    unit.person.sql.execute("update device_key set revoked_at = now() where hash = $1", secret_hashes.digest(unit.key))
    eventually(lambda: unit.deliver(unit.sample(1)).status_code == 401, "the end of a revoked key")


def test_invalid_media_types_encodings_and_sizes_are_rejected(unit: Unit) -> None:
    assert unit.deliver(unit.sample(1), headers={"Content-Type": "text/plain"}).status_code == 415
    assert unit.deliver(unit.sample(1), headers={"Content-Encoding": "br"}).status_code == 415
    assert unit.deliver(unit.sample(1), headers={"Content-Encoding": "gzip"}).status_code == 400
    cut = gzip.compress(b"[]" * 100)[:-9]
    assert unit.deliver(content=cut, headers={"Content-Encoding": "gzip"}).status_code == 400
    bomb = gzip.compress(b" " * 9_000_000)
    assert unit.deliver(content=bomb, headers={"Content-Encoding": "gzip"}).status_code == 413
    assert unit.deliver(content=b"[{]").status_code == 400
    assert unit.deliver(content=b"").json() == {"accepted": 0, "duplicates": 0, "refused": []}


def test_parallel_deliveries_of_the_same_cars_lose_nothing(alice: Person) -> None:
    from concurrent.futures import ThreadPoolExecutor

    units = [unit_of(alice) for _ in range(3)]

    def deliver(n: int) -> dict[str, Any]:
        samples = [u.sample(1000 - n - k / 10, odometer=n * 10 + k) for u in units for k in range(5)]
        return units[0].deliver(*samples).json()

    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(deliver, range(40)))
    assert sum(report["accepted"] for report in reports) == 40 * 15
    for u in units:
        assert (
            u.get("location")["odometerDate"]
            == ((NOW - timedelta(minutes=1000 - 39 - 0.0)).isoformat().replace("+00:00", "Z"))
            or u.get("location")["odometer"] == "394"
        )
        assert len(u.odometers()) == 200


def test_the_state_of_a_deleted_car_is_deleted(unit: Unit) -> None:
    unit.tell(1, rpm=1)
    assert unit.person.delete(f"/cars/{unit.car}").status_code == 204
    assert unit.deliver(unit.sample(0)).json() == refusal(UNKNOWN_UNIT)
