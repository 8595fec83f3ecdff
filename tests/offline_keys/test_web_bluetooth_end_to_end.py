"""The phone in JavaScript, from registration to log.

Server and browser are real, the radio is emulated.
"""

from __future__ import annotations

from keyrack.core.settings import Settings
from tests.offline_keys.box_nearby import BoxNearby
from tests.offline_keys.offline_world import driver, garage
from tests.offline_keys.peripheral import PUMP, Peripheral, emulated
from tests.offline_keys.phone_bridge import bridge
from tests.offline_keys.phone_page import App
from tests.support import browser
from tests.support.people import Town
from tests.support.servers import RunningServer, eventually

pytestmark = browser.needed


def test_a_phone_opens_while_the_server_is_stopped(
    town: Town, server: RunningServer, settings: Settings, dsn: str
) -> None:
    """The server returns later, and gets the log."""
    person = town.person("radio")
    car, own = garage(person)
    user = person.user()
    person.assignment(car, user)
    box = BoxNearby(own)
    token = driver(person, user).token
    with bridge() as bridged, browser.launched() as chromium:
        context = chromium.new_context(base_url=bridged.url)
        with emulated(context) as radio:
            page = context.new_page()
            page.add_init_script(PUMP)
            radio.answer_choosers(context, page)
            app = App(page=page, path="/server", token=token)
            Peripheral(radio, box)
            with RunningServer(settings, dsn, worker=False, public_url=server.url) as running:
                bridged.upstream = running.url
                app.load(own.product, box.now)
            app.load(own.product, box.now)
            assert app.tap("find") == box.advertised_name
            assert app.tap("open") == car
            assert app.tap("home") == ["TypeError", None]
            assert app.tap("close") is False
            assert box.effects == ["OPEN", "CLOSE"]
            assert person.get("/events").json() == []
            with RunningServer(settings, dsn, worker=False, public_url=server.url) as running:
                bridged.upstream = running.url
                assert app.tap("home") == 0
            app.check_violations()
    events = eventually(lambda: person.get("/events").json(), "the events of the log")
    assert [event["type"] for event in events] == ["CarOpened", "CarClosed"]
