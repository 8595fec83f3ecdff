"""Times on the pages: with their weekday, and dates that are stored as times."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from keyrack.console.local_times import Clock
from tests.support.people import Person

FRIDAY = "2031-11-28T08:00:05Z"
THIS_YEAR = f"{datetime.now(UTC).year}-06-15T08:00:05Z"


@pytest.mark.parametrize(
    ("locale", "format", "shown"),
    [
        ("en_GB", "short", "Fri, 28 Nov 2031, 09:00"),
        ("en_GB", "minute", "Fri, 28 Nov 2031, 09:00"),
        ("en_GB", "medium", "Fri, 28 Nov 2031, 09:00:05"),
        ("en_GB", "long", "Friday, 28 November 2031, 09:00:05 CET"),
        ("de", "short", "Fr., 28. Nov. 2031, 09:00"),
        ("de", "medium", "Fr., 28. Nov. 2031, 09:00:05"),
        ("de", "long", "Freitag, 28. November 2031, 09:00:05 MEZ"),
    ],
)
def test_a_time_has_its_weekday(locale: str, format: str, shown: str) -> None:
    assert Clock("Europe/Berlin", locale).moment(FRIDAY, format) == f'<time datetime="{FRIDAY}">{shown}</time>'


def test_this_year_is_not_named_and_a_day_has_its_weekday() -> None:
    clock = Clock("Europe/Berlin", "en_GB")
    weekday = datetime.fromisoformat(THIS_YEAR).strftime("%a")
    assert f">{weekday} 15 Jun, 10:00<" in clock.moment(THIS_YEAR, "short")
    assert clock.day(FRIDAY) == "Fri, 28 Nov 2031"


@pytest.mark.parametrize(
    ("zone", "stored", "day"),
    [
        ("Europe/Berlin", "2028-10-22T00:00:00Z", date(2028, 10, 22)),
        ("America/New_York", "2028-10-22T00:00:00Z", date(2028, 10, 22)),
        ("Pacific/Auckland", "2028-10-22T00:00:00Z", date(2028, 10, 22)),
        ("Europe/Berlin", "2028-10-21T22:00:00Z", date(2028, 10, 22)),
        ("UTC", "2028-10-21T22:00:00Z", date(2028, 10, 21)),
        ("Europe/Berlin", "9999-12-31T23:59:59Z", date(9999, 12, 31)),
    ],
)
def test_a_date_that_is_stored_as_a_time_is_the_same_everywhere(zone: str, stored: str, day: date) -> None:
    assert Clock(zone, "en_GB").calendar_date(stored) == day


def test_the_end_of_a_contract_is_a_date(carol: Person) -> None:
    car = carol.car_with_box()
    service = carol.get("/services").json()[0]["id"]
    carol.sql.execute(
        "insert into contract (customer_id, service_id, order_number, document_number, starts_at, ends_at)"
        " values ($1, $2, 'O', 'D', '2026-10-22T00:00:00Z', '2028-10-22T00:00:00Z')",
        carol.customer, service,
    )  # fmt: skip
    with carol.browser() as client:
        for path in ("services", "boxes?columns=serial,contract", f"cars/{car}"):
            page = client.get(f"/{carol.customer}/{path}").text
            assert "Sun, 22 Oct 2028" in page and "22 Oct 2028," not in page, path
        for path in ("services.csv?columns=name,contract", "boxes.csv?columns=serial,contract"):
            file = client.get(f"/{carol.customer}/{path}").text
            assert "2028-10-22" in file and "2028-10-22 0" not in file, path
