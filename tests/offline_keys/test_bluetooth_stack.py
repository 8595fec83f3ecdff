"""The Bluetooth binding over a real stack.

bumble has the host, GATT and the security manager. The link is virtual.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from bumble import gatt
from bumble.core import ProtocolError
from bumble.smp import ErrorCode

from keyrack.offline_keys import link_messages
from keyrack.offline_keys.transports import advertisements, bluetooth
from keyrack.offline_keys.transports.fragments import FragmentError, FragmentRejected, split
from keyrack.offline_keys.transports.message_buffer import Phase
from tests.offline_keys.bumble_box import (
    FROM_BOX,
    SERVICE,
    SIZE,
    TO_BOX,
    BoxReported,
    BumbleBox,
    BumblePhone,
    CBumblePhone,
    Driver,
    ExchangeLost,
    VirtualLink,
)
from tests.offline_keys.c_world import CWorld
from tests.offline_keys.phone_world import World

HELLO = link_messages.write(link_messages.hello())


Test = Callable[[BumbleBox], Awaitable[None]]
Runner = Callable[[Test], None]


@pytest.fixture(params=[World, CWorld], ids=["Python", "C"])
def over_bluetooth(request: pytest.FixtureRequest) -> Runner:
    """Runs a test with an advertising box, in Python and in C."""

    async def run(test: Test) -> None:
        box = BumbleBox(VirtualLink(), request.param())
        await box.start()
        await test(box)

    return lambda test: asyncio.run(run(test))


async def phone_of(box: BumbleBox, number: int = 0, *, with_response: bool = True) -> BumblePhone:
    return await BumblePhone(box.link, number, with_response=with_response).start()


@pytest.mark.parametrize("with_response", [True, False])
@pytest.mark.parametrize("mtu", [23, 185, 247])
def test_a_first_conversation(over_bluetooth: Runner, mtu: int, with_response: bool) -> None:
    async def test(box: BumbleBox) -> None:
        box.world.seconds_pass(5)  # so that the driver brings a newer list
        phone = await (await phone_of(box, with_response=with_response)).connect(mtu)
        assert phone.size_value == bytes([1, 0, mtu - 3])
        assert len(await Driver(box.world).converse(phone)) == 2, "the entries of provisioning and opening"
        assert (box.world.effects, box.world.codes) == (["OPEN"], [])

    over_bluetooth(test)


@pytest.mark.parametrize("mtu", [23, 247])
def test_a_first_conversation_of_a_phone_in_c(over_bluetooth: Runner, mtu: int) -> None:
    async def test(box: BumbleBox) -> None:
        box.world.seconds_pass(5)  # so that the driver brings a newer list
        phone = CBumblePhone(box.link, 0)
        await (await phone.start()).connect(mtu)
        assert len(await Driver(box.world).converse(phone)) == 2
        assert (box.world.effects, box.world.codes) == (["OPEN"], [])

    over_bluetooth(test)


def test_a_phone_in_c_waits_for_a_busy_box(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        other, phone = await (await phone_of(box)).connect(), CBumblePhone(box.link, 1)
        await (await phone.start()).connect()
        await other.write(b"\x83\x00\x02\xc0")
        refused = asyncio.create_task(phone.say(HELLO))
        await box.link.settled()
        assert not refused.done()
        await other.write(b"\x00\xc0")
        assert len(await refused) > 80
        await phone.leave()
        with pytest.raises(ExchangeLost):
            await phone.say(HELLO)

    over_bluetooth(test)


def test_the_box_takes_no_larger_mtu_than_a_data_packet(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phone = await (await phone_of(box)).connect(512)
        assert phone.size == 244

    over_bluetooth(test)


def test_the_service_is_that_of_the_specification(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phone = await (await phone_of(box)).connect()
        await phone.peer.discover_services()
        await phone.peer.discover_characteristics()
        (service,) = phone.peer.get_services_by_uuid(SERVICE)
        properties = {each.uuid: each.properties for each in service.characteristics}
        kinds = gatt.Characteristic.Properties
        assert properties == {
            TO_BOX: kinds.WRITE | kinds.WRITE_WITHOUT_RESPONSE,
            FROM_BOX: kinds.NOTIFY,
            SIZE: kinds.READ,
        }

    over_bluetooth(test)


@pytest.mark.parametrize("with_response", [True, False])
def test_a_lost_packet_opens_nothing_wrong(over_bluetooth: Runner, with_response: bool) -> None:
    """Each packet of an opening is lost once. The phone connects again, and opens."""

    async def test(box: BumbleBox) -> None:
        world, link = box.world, box.link
        driver, phone = Driver(world), await phone_of(box, with_response=with_response)
        await phone.connect(185)
        begin = link.packets
        await driver.open(phone)
        packets = link.packets - begin
        await phone.leave()
        lost: list[int] = []  # how often the box has opened for a phone that saw no result
        for place in range(1, packets + 1):
            await phone.connect(185)
            link.dropped, opened = {link.packets + place}, len(world.effects)
            try:
                await driver.open(phone)
            except (ExchangeLost, BoxReported, FragmentRejected):
                lost.append(len(world.effects) - opened)
                await phone.leave()
                await phone.connect(185)
                opened = len(world.effects)
                await driver.open(phone)
            assert len(world.effects) == opened + 1
            await phone.leave()
            assert (box.buffer.phase, box.connections) == (Phase.FREE, {})
        assert len(lost) > packets // 2 and set(lost) == {0, 1}
        assert set(world.effects) == {"OPEN"} and world.codes == []
        assert len(world.box.kept.log.entries) == len(world.effects) + 1

    over_bluetooth(test)


def test_a_phone_may_leave_after_each_fragment_of_its_message(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phone = await phone_of(box)
        fragments = list(split(bytes(200), 20))
        for count in range(len(fragments)):
            await phone.connect(23)
            for fragment in fragments[:count]:
                await phone.write(fragment)
            assert box.buffer.phase is (Phase.RECEIVING if count else Phase.FREE)
            await phone.leave()
            assert (box.buffer.phase, box.connections) == (Phase.FREE, {})
        await phone.connect(23)
        await Driver(box.world).open(phone)
        assert box.world.effects == ["OPEN"]

    over_bluetooth(test)


def test_a_phone_may_leave_after_each_fragment_of_the_reply(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phone = await phone_of(box)
        for count in range(1, 6):
            await phone.connect(23)
            arrivals = 0

            def notified(count: int = count) -> None:
                nonlocal arrivals
                arrivals += 1
                if arrivals == count:
                    asyncio.get_running_loop().create_task(phone.connection.disconnect())

            phone.on_notification = notified
            with contextlib.suppress(ExchangeLost):
                await phone.say(HELLO)
            await box.link.settled()
            assert (box.buffer.phase, box.connections) == (Phase.FREE, {})
        phone.on_notification = lambda: None
        await phone.connect(23)
        await Driver(box.world).open(phone)
        assert box.world.effects == ["OPEN"]

    over_bluetooth(test)


def test_three_phones_share_the_box_and_the_fourth_one_waits(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phones = [await phone_of(box, number) for number in range(4)]
        drivers = [Driver(box.world) for _ in phones]
        for phone, mtu in zip(phones[:3], (23, 185, 247), strict=True):
            assert box.device.is_advertising
            await phone.connect(mtu)
        assert not box.device.is_advertising
        await phones[0].write(b"\x83\x00\x02\xc0")
        with pytest.raises(BoxReported) as reported:
            await phones[1].say(HELLO)
        assert reported.value.code is FragmentError.BUSY
        await phones[0].write(b"\x00\xc0")
        await box.link.settled()
        assert not phones[0].replies.empty()
        phones[0].replies.get_nowait()
        for number in (1, 0, 2):  # the one that was refused has the next turn
            await drivers[number].open(phones[number])
        await phones[1].leave()
        assert box.device.is_advertising
        await phones[3].connect(185)
        await drivers[3].open(phones[3])
        assert box.world.effects == ["OPEN"] * 4 and not box.device.is_advertising

    over_bluetooth(test)


def test_a_squatter_is_dropped(over_bluetooth: Runner) -> None:
    """It is silent, or it says hello as long as it can."""

    async def test(box: BumbleBox) -> None:
        silent, talking, driver = [await (await phone_of(box, number)).connect() for number in range(3)]
        await Driver(box.world).open(driver)
        await talking.say(HELLO)
        await box.tick(bluetooth.FIRST_MESSAGE_MS - 1)
        assert silent.is_connected and not box.device.is_advertising
        await box.tick(1)
        assert not silent.is_connected and box.device.is_advertising
        while box.now < bluetooth.UNPROVEN_MS - 1:
            await box.tick(min(4_000, bluetooth.UNPROVEN_MS - 1 - box.now))
            await talking.say(HELLO)
            assert len(await driver.say(HELLO)) > 80
        assert talking.is_connected
        await box.tick(1)
        assert not talking.is_connected and driver.is_connected
        await box.tick(bluetooth.PROVEN_IDLE_MS)
        assert not driver.is_connected

    over_bluetooth(test)


def test_a_slow_message_is_reported_by_the_timer_of_the_box(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phone = await (await phone_of(box)).connect()
        await phone.write(b"\x83\x00\x02\xc0")
        await box.tick(1_001)
        with pytest.raises(BoxReported) as reported:
            await phone.say(b"\xc0")
        assert reported.value.code is FragmentError.TIMEOUT

    over_bluetooth(test)


def test_pairing_is_not_supported(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        phone = await (await phone_of(box)).connect()
        with pytest.raises(ProtocolError) as failed:
            await phone.connection.pair()
        assert failed.value.error_code == ErrorCode.PAIRING_NOT_SUPPORTED
        await Driver(box.world).open(phone)
        assert box.world.effects == ["OPEN"], "no characteristic needs encryption"

    over_bluetooth(test)


def test_name_and_address_change_with_the_slot(over_bluetooth: Runner) -> None:
    async def test(box: BumbleBox) -> None:
        watcher, driver = [await phone_of(box, number) for number in range(2)]
        await driver.connect()
        seen = []
        for _ in range(3):
            found = await watcher.find()
            now = box.world.now
            assert len(found.data) == 31 and found.services == [SERVICE]
            secret = box.world.box.authority.advertising
            assert found.name == advertisements.name_at(secret, now) and found.name.startswith("K-")
            assert found.address.is_resolvable, "in its form: nobody has the identity key"
            name = await driver.peer.read_characteristics_by_uuid(gatt.GATT_DEVICE_NAME_CHARACTERISTIC)
            assert name == [found.name.encode()], "systems show the name of GAP"
            seen.append(found)
            box.world.seconds_pass(advertisements.SLOT_SECONDS)
            await box.advertise()
        assert len({found.name for found in seen}) == len({str(found.address) for found in seen}) == 3
        await Driver(box.world).open(driver)
        assert box.world.effects == ["OPEN"], "a connection stays when the name changes"

    over_bluetooth(test)
