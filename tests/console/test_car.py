"""A car's page: facts edited in place, devices, time line, telemetry, chart and openings."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person, nobody_works
from tests.support.servers import eventually
from tests.telemetry.endpoints.test_ingest import Unit, passed, unit_of

pytestmark = pytest.mark.cluster


def hours(number: float) -> str:
    """A time so many hours from now."""
    return (datetime.now(UTC) + timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def look_at(page: Page, person: Person, car: int, more: str = "") -> None:
    page.goto(f"/console/{person.customer}/cars/{car}{more}")


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


@pytest.fixture
def kim(carol: Person) -> int:
    return carol.user(userData={"firstName": "Kim", "lastName": "Lee"})


def test_a_fact_is_changed_where_it_stands(carol: Person, desk: Desk) -> None:
    car = carol.car("Pool car", licensePlate="B KR 1")
    page = desk(carol)
    look_at(page, carol, car)
    expect(page.get_by_role("heading", level=1)).to_have_text("Pool car")
    page.get_by_role("link", name="Change Name").click()
    field = page.get_by_role("textbox", name="Name", exact=True)
    expect(field).to_be_focused()
    field.fill("Pool car 7")
    field.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pool car 7")
    expect(page.get_by_role("link", name="Change Name")).to_be_focused()
    page.get_by_role("link", name="Change License plate").click()
    page.get_by_role("textbox", name="License plate", exact=True).fill("")
    page.get_by_role("button", name="Save").click()
    expect(part(page, "Facts").get_by_text("Not given")).to_have_count(5)
    page.get_by_role("link", name="Change Description").click()
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("link", name="Change Description")).to_be_focused()
    told = carol.get(f"/cars/{car}").json()
    assert (told["name"], told["licensePlate"]) == ("Pool car 7", None)


def test_who_was_slower_is_told_what_is_there_now(carol: Person, desk: Desk) -> None:
    car = carol.car("Pool car", brand="Audi")
    page = desk(carol)
    look_at(page, carol, car)
    page.get_by_role("link", name="Change Brand").click()
    field = page.get_by_role("textbox", name="Brand", exact=True)
    field.fill("Opel")
    carol.patch(f"/cars/{car}", [{"op": "replace", "path": "/brand", "value": "Seat"}])
    page.get_by_role("button", name="Save").click()
    expect(part(page, "Facts")).to_contain_text("Another person changed this car in the meantime. Brand is now: Seat.")
    expect(field).to_have_value("Opel")
    assert carol.get(f"/cars/{car}").json()["brand"] == "Seat"
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Change Brand")).to_be_visible()
    assert carol.get(f"/cars/{car}").json()["brand"] == "Opel"


def test_without_a_script_the_form_is_a_page(carol: Person) -> None:
    car = carol.car("Pool car")
    with carol.browser() as browser:
        there = f"/{carol.customer}/cars/{car}"
        assert 'value="Pool car"' in browser.get(f"{there}?edit=name").text
        tag = carol.get(f"/cars/{car}").headers["ETag"]
        done = browser.post(f"{there}/facts/name", data={"value": "Van", "tag": tag})
        assert (done.status_code, done.headers["Location"]) == (303, f"/console{there}#fact-name")
        late = browser.post(f"{there}/facts/name", data={"value": "Bus", "tag": tag})
        assert late.status_code == 412 and 'value="Bus"' in late.text and "Name is now: Van." in late.text
        blank = browser.post(f"{there}/facts/name", data={"value": " "})
        assert blank.status_code == 400 and "A car needs a name." in blank.text
        long = browser.post(f"{there}/facts/vin", data={"value": "x" * 251})
        assert long.status_code == 400 and "It has at most 250 characters." in long.text


def test_a_neighbours_car_is_like_none(carol: Person, bob: Person) -> None:
    theirs = bob.car_with_box()
    (product,) = bob.get(f"/cars/{theirs}/products").json()
    with carol.browser() as browser:
        for rest in ("", "/delete", "/install", "?part=who"):
            same = {"X-Request-Id": "the-same-for-both"}
            answers = [
                browser.get(f"/{carol.customer}/cars/{car}{rest}", headers=same) for car in (theirs, 2_000_000_000)
            ]
            assert {answer.status_code for answer in answers} == {404}
            assert answers[0].content == answers[1].content
        mine = carol.car()
        for method in ("GET", "POST"):
            path = f"/{carol.customer}/cars/{mine}/products/{product['id']}/uninstall"
            assert browser.request(method, path).status_code == 404
        assert browser.post(f"/{carol.customer}/cars/{theirs}/delete").status_code == 404
        nowhere = browser.post(f"/{carol.customer}/cars/what-is-no-id/install", data={"product": product["id"]})
        assert nowhere.status_code == 404
        refused = browser.post(f"/{carol.customer}/cars/{mine}/install", data={"product": product["id"]})
        assert refused.status_code == 404 and "It no longer exists." in refused.text
        found = browser.get(f"/{carol.customer}/choices/products?q={product['serialNumber']}").json()
        assert found == {"options": [], "total": 0}
    assert bob.get(f"/cars/{theirs}/products").json() == [product]


def choose(page: Page, text: str) -> None:
    page.get_by_role("combobox", name="Key box or tracker").fill(text)
    page.get_by_role("option", name=text).click()


def test_a_box_is_installed_and_taken_out(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car("Pool car")
    product = carol.product(serial_number=f"FREE-{car}")
    carol.service(product)
    carol.product(serial_number=f"FREE-WITHOUT-{car}")
    page = desk(carol)
    look_at(page, carol, car)
    page.get_by_role("button", name="Put in").click()
    dialog = page.get_by_role("dialog", name="Put into Pool car")
    dialog.get_by_role("combobox", name="Key box or tracker").fill("free-")
    expect(dialog.get_by_role("option")).to_have_count(1)  # a device without a service cannot be put in
    dialog.get_by_role("option").click()
    dialog.get_by_role("button", name="Put in").click()
    expect(page.get_by_role("status").filter(has_text=f"Key box FREE-{car} is put in.")).to_be_visible()
    expect(part(page, "Key box and tracker").get_by_role("heading", name=f"Key box FREE-{car}")).to_be_visible()
    carol.assignment(car, kim)
    page.get_by_role("button", name="Take out").click()
    dialog = page.get_by_role("dialog", name=f"Take out FREE-{car}")
    expect(dialog).to_contain_text("1 booking ends.")
    dialog.get_by_role("button", name="Take out").click()
    expect(page.get_by_role("status").filter(has_text=f"Key box FREE-{car} is taken out.")).to_be_visible()
    expect(part(page, "Key box and tracker")).to_contain_text("No key box and no tracker")
    eventually(lambda: carol.get(f"/cars/{car}/assignments").json() == [], "the assignment's end")


def test_what_stands_in_the_way_of_installing_is_told_with_the_way_out(carol: Person, desk: Desk) -> None:
    car, other = carol.car("Pool car"), carol.car("Van")
    product = carol.product()
    serial = carol.get(f"/products/{product}").json()["serialNumber"]
    service = carol.service(product)
    page = desk(carol)
    look_at(page, carol, car, "/install")
    choose(page, serial)
    carol.put("/installations", {"carId": other, "productId": product})
    page.get_by_role("button", name="Put in").click()
    expect(page.get_by_role("alert").filter(has_text=f"{serial} is in Van already.")).to_be_visible()
    page.get_by_role("link", name="Take it out of Van").click()
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_role("status").filter(has_text=f"{serial} is taken out.")).to_be_visible()
    page.wait_for_url(f"**/cars/{other}?uninstalled={product}")
    look_at(page, carol, car, "/install")
    choose(page, serial)
    carol.sql.execute("update service set is_terminated = true where service_id = $1", service)
    page.get_by_role("button", name="Put in").click()
    expect(page.get_by_role("alert").filter(has_text="It has no active service.")).to_be_visible()
    carol.sql.execute("update service set is_terminated = false where service_id = $1", service)
    box = carol.get(f"/products/{carol.box_in(car)}").json()
    there = box["serialNumber"]
    choose(page, serial)  # a device without an active service is not an option
    page.get_by_role("button", name="Put in").click()
    expect(
        page.get_by_role("alert").filter(has_text=f"Pool car has a device of this type already: Key box {there}.")
    ).to_be_visible()
    expect(page.get_by_role("link", name=f"Take out {there}")).to_be_visible()


def test_uninstalling_twice_is_told(carol: Person, desk: Desk) -> None:
    car, other = carol.car("Pool car"), carol.car("Van")
    product = carol.box_in(car)
    page = desk(carol)
    look_at(page, carol, car, f"/products/{product}/uninstall")
    carol.delete("/installations", {"carId": car, "productId": product})
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("It is no longer in this car.")).to_be_visible()
    carol.put("/installations", {"carId": car, "productId": product})
    look_at(page, carol, car, f"/products/{product}/uninstall")
    carol.delete("/installations", {"carId": car, "productId": product})
    carol.put("/installations", {"carId": other, "productId": product})
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_role("link", name="Take it out of Van")).to_be_visible()


def test_deleting_says_what_ends(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    carol.assignment(car, kim)
    page = desk(carol)
    look_at(page, carol, car)
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Pool car")
    expect(dialog.get_by_role("heading", name="Delete Pool car")).to_be_focused()
    expect(dialog).to_contain_text("1 current or upcoming booking ends.")
    expect(dialog).to_contain_text("is taken out, and can be put into another car.")
    carol.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Van"}])
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert").filter(has_text="It is now Van")).to_be_visible()
    assert carol.get(f"/cars/{car}").status_code == 200
    dialog.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/cars")
    assert carol.get(f"/cars/{car}").status_code == 404


def test_the_time_line_shows_all_that_was_and_will_be(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car("Pool car")
    carol.put("/assignments", {"carId": car, "userId": kim, "start": hours(-30), "end": hours(-20)})
    eventually(lambda: carol.get("/operations", params={"$filter": "state eq 'Failed'"}).json(), "the failure")
    carol.box_in(car)
    ended = carol.assignment(car, kim, hours(-10), end=hours(100))
    carol.delete(f"/assignments/{ended}")
    eventually(lambda: carol.get(f"/cars/{car}/assignments").json() == [], "the end")
    carol.assignment(car, kim, hours(-20), end=hours(-19))
    carol.assignment(car, kim, hours(-1))
    carol.assignment(car, kim, hours(24), end=hours(48))
    page = desk(carol)
    with nobody_works(carol):
        carol.put("/assignments", {"carId": car, "userId": kim, "start": hours(50), "end": hours(52)})
        look_at(page, carol, car, "?span=week")
        line = part(page, "Time line of bookings")
        for word in ("Past", "Now", "Upcoming", "Being processed", "Failed", "Ended early"):
            expect(line.get_by_role("listitem").filter(has_text=re.compile(f"^\\s*{word}"))).to_have_count(1)
        expect(line.get_by_role("listitem").filter(has_text="Failed")).to_contain_text("The car has no key box.")
        expect(page.get_by_text("1 request is being processed")).to_be_visible()
    expect(line.get_by_role("listitem").filter(has_text="Upcoming")).to_have_count(2)  # by itself, once it is done
    expect(line.get_by_role("listitem").filter(has_text="Being processed")).to_have_count(0)
    bar = line.get_by_role("listitem").filter(has_text="Upcoming").first.locator("svg a")  # a link for the mouse alone
    expect(bar).to_have_attribute("href", re.compile(r"/assignments/\d+$"))
    line.get_by_role("link", name="Next").click()
    page.wait_for_url("**span=week&from=*")
    expect(line.get_by_role("listitem")).to_have_count(1)  # what is without end
    page.go_back()
    expect(line.get_by_role("listitem").filter(has_text="Failed")).to_be_visible()
    line.get_by_role("link", name="Month").click()
    expect(line.get_by_role("link", name="Month")).to_have_attribute("aria-current", "true")


def test_a_removed_past_assignment_did_not_end_early(carol: Person, kim: int) -> None:
    """Uninstalling removes past assignments too. Their users had the car for the whole of their time."""
    car = carol.car_with_box("Pool car")
    carol.assignment(car, kim, hours(-20), end=hours(-19))
    carol.assignment(car, kim, hours(-1), end=hours(1))
    box = carol.get(f"/products?$filter=car/id eq {car}").json()[0]["id"]
    with carol.browser() as browser:
        for path in (f"/products/{box}/uninstall", "/delete"):
            asked = browser.get(f"/{carol.customer}/cars/{car}{path}").text
            assert "1 past booking is deleted as well, and webhooks are notified." in asked
        bulk = browser.post(f"/{carol.customer}/cars/bulk/delete", data={"ids": car}).text
        assert "Past bookings that are deleted as well: 1" in bulk
        assert carol.delete("/installations", {"carId": car, "productId": box}).status_code == 204
        eventually(lambda: carol.get(f"/cars/{car}/assignments").json() == [], "the ends")
        page = browser.get(f"/{carol.customer}/cars/{car}?part=timeline").text
    words = re.findall(r"(Past|Ended early|Upcoming|Now)</span>", page)
    assert sorted(words) == ["Ended early", "Past"] and page.count("The key box was taken out.") == 1


def test_who_has_the_car_comes_in_by_itself(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    look_at(page, carol, car)
    expect(page.get_by_text("Free").first).to_be_visible()
    assign = page.get_by_role("button", name="Book")
    expect(assign).to_have_attribute("href", f"/console/{carol.customer}/assignments/new?car={car}")
    carol.assignment(car, kim, hours(-1), end=hours(1))
    carol.assignment(car, kim, hours(24))
    expect(page.get_by_text("Booked")).to_be_visible()
    expect(page.get_by_text("Free")).to_have_count(0)
    expect(page.get_by_text("No booking after that")).to_have_count(0)
    expect(page.locator("body")).to_be_focused()  # nothing takes the focus


def test_what_is_filled_in_is_left_alone(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    look_at(page, carol, car)
    page.get_by_role("link", name="Change Brand").click()
    page.get_by_role("textbox", name="Brand", exact=True).fill("Opel")
    carol.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Van"}])
    expect(page.get_by_role("heading", level=1)).to_have_text("Van")
    expect(page.get_by_role("textbox", name="Brand", exact=True)).to_have_value("Opel")


@pytest.fixture
def unit(carol: Person) -> Unit:
    return unit_of(carol)


def test_what_the_unit_tells_is_shown(carol: Person, unit: Unit, desk: Desk) -> None:
    page = desk(carol)
    look_at(page, carol, unit.car)
    where = page.get_by_role("definition")
    expect(where.filter(has_text="No position yet")).to_be_visible()
    expect(page.get_by_text("The tracker in this car has not reported yet.")).to_be_visible()
    expect(page.get_by_text("No odometer reading in this time.")).to_be_visible()
    expect(page.get_by_text("No reading of fuel, battery or temperatures in this time.")).to_be_visible()
    unit.tell(90, odometer=1000.0, currentLatitude=52.5, currentLongitude=13.4)
    unit.tell(60 * 30, fuelLevelPercent=70, batteryVoltage=12.04)
    unit.tell(30, odometer=1041.5, fuelLevelPercent=8.5, fuelType="Diesel", ignition=True, isDriving=True)
    look_at(page, carol, unit.car)
    expect(where.filter(has_text="km from Berlin")).to_be_visible()
    expect(where.filter(has=page.get_by_role("link", name="On the map"))).to_contain_text("Last seen")
    told = part(page, "Telemetry")
    expect(told.get_by_role("listitem").filter(has_text="Odometer")).to_contain_text("1,042 km")
    expect(told.get_by_role("listitem").filter(has_text="Fuel")).to_contain_text("8.5 %")
    expect(told.get_by_role("listitem").filter(has_text="Ignition")).to_contain_text("Was driving")
    expect(told).to_contain_text("Out of date")
    over = part(page, "Fuel, battery and temperatures over time")
    expect(over.get_by_role("listitem").filter(has_text="Fuel")).to_contain_text(
        re.compile("minutes ago|1 hour ago")  # the beginning of the interval that the reading is in
    )
    expect(over.get_by_role("img", name="Fuel: between 8.5 and 70 %, last 8.5 %.")).to_be_visible()
    expect(over.get_by_role("img", name="Voltage: between 12 and 12 V, last 12 V.")).to_be_visible()
    over.get_by_text("The same as a table").click()
    rows = over.get_by_role("table", name="Readings over time").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.last).to_contain_text("70")
    over.get_by_role("link", name="Day").click()
    expect(over.get_by_role("img", name="Fuel: between 8.5 and 8.5 %")).to_be_visible()
    expect(over.get_by_role("img", name="Voltage")).to_have_count(0)
    expect(told.get_by_text("Never reported by this tracker:")).to_contain_text("Speed")
    unit.tell(
        1 - passed(), odometer=1050.0, fuelLevelPercent=8, fuelType="Diesel", ignition=False, isDriving=False,
        currentLatitude=53.866, currentLongitude=10.687,
    )  # fmt: skip
    expect(told.get_by_role("listitem").filter(has_text="Ignition")).to_contain_text("Off")  # by itself
    expect(told.get_by_role("listitem").filter(has_text="Ignition")).to_contain_text("Standing")
    expect(told.get_by_text("Out of date")).to_have_count(0)
    expect(where.filter(has_text="Lübeck")).to_be_visible()
    expect(over.get_by_role("img", name="Fuel: between 8 and 8.5 %, last 8 %.")).to_be_visible()


def test_the_chart_has_a_table_and_goes_by_keyboard(carol: Person, unit: Unit, desk: Desk) -> None:
    unit.tell(170, odometer=1000.0)
    unit.tell(100, odometer=1010.0)
    unit.tell(30, odometer=1041.5)
    page = desk(carol)
    look_at(page, carol, unit.car)
    chart = part(page, "Odometer over time").first
    expect(chart.get_by_role("figure", name="42 km driven")).to_be_visible()
    chart.get_by_role("link", name="Day").click()
    page.wait_for_url("**range=day")
    picture = page.get_by_role("img", name="Odometer and km driven over time.")
    expect(picture.locator("canvas")).to_have_count(2)
    picture.focus()
    page.keyboard.press("End")
    expect(chart.get_by_text("odometer 1,041.5 km, driven 31.5 km")).to_be_visible()
    page.keyboard.press("Home")
    expect(chart.get_by_text("odometer 1,000 km, driven 0 km")).to_be_visible()
    # A new reading redraws the chart, and the chosen time stays
    drawn = picture.locator("canvas").first.element_handle()
    with page.expect_response("**/samples**"):
        chart.get_by_role("figure").dispatch_event("refresh")
    page.wait_for_function("canvas => !canvas.isConnected", arg=drawn)
    page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    expect(chart.get_by_text("odometer 1,000 km, driven 0 km")).to_be_visible()
    chart.get_by_text("The same as a table").click()
    rows = chart.get_by_role("table", name="Odometer readings").get_by_role("row")
    expect(rows.last).to_contain_text("1,041.5")
    page.go_back()
    expect(chart.get_by_role("link", name="Week")).to_have_attribute("aria-current", "page")


def test_the_events_lead_to_their_list(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car("Pool car")
    page = desk(carol)
    look_at(page, carol, car)
    expect(page.get_by_text("The car was not opened or closed yet.")).to_be_visible()
    carol.event(car, kim)
    rows = page.get_by_role("table", name="Newest openings").get_by_role("row")
    expect(rows.last).to_contain_text("Opened")  # by itself
    expect(rows.last).to_contain_text("Kim Lee")
    all = page.get_by_role("link", name="All openings of this car")
    expect(all).to_have_attribute("href", f"/console/{carol.customer}/events?car={car}")


@axe.each_look
def test_everybody_can_use_the_page(carol: Person, kim: int, unit: Unit, desk: Desk, theme: str, width: int) -> None:
    carol.box_in(unit.car)
    carol.assignment(unit.car, kim, hours(-1), end=hours(30))
    carol.event(unit.car, kim)
    unit.tell(100, odometer=1010.0, currentLatitude=52.5, currentLongitude=13.4)
    unit.tell(30, odometer=1041.5, fuelLevelPercent=8.5, ignition=True)
    page = desk(carol, color_scheme=theme, viewport={"width": width, "height": 900})
    look_at(page, carol, unit.car)
    expect(page.get_by_role("img", name="Odometer and km").locator("canvas")).to_have_count(2)
    for table in page.get_by_text("The same as a table").all():
        table.click()
    assert axe.faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Change Name").click()
    page.get_by_role("textbox", name="Name", exact=True).fill(" ")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("A car needs a name.")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")  # what the header covers by half counts as small
    assert axe.faults(page) == []
    (product, *_) = carol.get(f"/cars/{unit.car}/products").json()
    for rest in ("/install", f"/products/{product['id']}/uninstall", "/delete"):
        look_at(page, carol, unit.car, rest)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert axe.faults(page) == []
