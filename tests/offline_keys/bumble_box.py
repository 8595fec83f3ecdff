"""The reference box and phone over bumble, a real Bluetooth stack.

The link is virtual, and packets travel by the event loop alone. So no test waits for a clock: an exchange is lost once
nothing moves any more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from bumble import gatt, hci
from bumble.att import Attribute
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData, PhysicalTransport
from bumble.device import Connection, Device, DeviceConfiguration, Peer
from bumble.gatt import Characteristic, CharacteristicValue, Service
from bumble.hci import Address
from bumble.host import Host
from bumble.link import LocalLink
from bumble.pairing import PairingConfig, PairingDelegate
from bumble.transport.common import AsyncPipeSink

from keyrack.offline_keys import link_messages, phone
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.transports import bluetooth
from keyrack.offline_keys.transports.fragments import Command, FragmentError, FragmentRejected, Reassembly, Whole, split
from tests.offline_keys import c_phone
from tests.offline_keys.c_phone_bluetooth import CPhoneBluetooth, Exchange
from tests.offline_keys.phone_world import ISS, NONCE, World, unb64

MOST_MTU = 247
INTERVAL_MS = 20  # between advertisements
QUIET_TURNS = 40  # of the event loop without a packet, after which nothing moves any more
SERVICE, TO_BOX, FROM_BOX, SIZE = (
    UUID(each) for each in (bluetooth.SERVICE, bluetooth.TO_BOX, bluetooth.FROM_BOX, bluetooth.SIZE)
)


class ExchangeLost(Exception):
    """A dropped packet or an ended connection: no reply will come."""


class BoxReported(Exception):
    """The box has reported an error."""

    def __init__(self, code: FragmentError) -> None:
        super().__init__(code.name)
        self.code = code


class VirtualLink(LocalLink):
    """The air between controllers. It drops packets by their number, and can delay each one."""

    def __init__(self, delay: float = 0.0) -> None:
        super().__init__()
        self.packets = 0
        self.dropped: set[int] = set()
        self.delay = delay  # seconds in each direction
        self._in_flight = 0

    def send_acl_data(
        self, sender_controller: Controller, destination_address: Address, transport: PhysicalTransport, data: bytes
    ) -> None:
        """Carry a packet. A connection keeps its address when the advertised one changes."""
        self.packets += 1
        if self.packets in self.dropped:
            return
        source = sender_controller.le_connections[destination_address].self_address
        self._in_flight += 1
        loop = asyncio.get_running_loop()
        if self.delay:
            loop.call_later(self.delay, self._deliver, source, destination_address, transport, data)
        else:
            loop.call_soon(self._deliver, source, destination_address, transport, data)

    def _deliver(self, source: Address, destination: Address, transport: PhysicalTransport, data: bytes) -> None:
        self._in_flight -= 1
        controller = self.find_le_controller(destination)
        if controller is not None and source in controller.le_connections:
            controller.on_link_acl_data(source, transport, data)

    async def settled(self) -> None:
        """Return when no packet moves any more."""
        turns, packets = 0, self.packets
        while turns < QUIET_TURNS:
            await asyncio.sleep(0)
            is_quiet = packets == self.packets and not self._in_flight
            turns, packets = turns + 1 if is_quiet else 0, self.packets


def _device(link: VirtualLink, name: str, address: str) -> Device:
    controller = Controller(name, link=link, public_address=address)
    configuration = DeviceConfiguration(
        name=name, address=Address(address), irk=secrets.token_bytes(16), gap_service_enabled=False
    )
    return Device(config=configuration, host=Host(controller, AsyncPipeSink(controller)))


class NoPairing(PairingDelegate):
    """The answer to a Pairing Request is "Pairing Not Supported"."""

    async def accept(self) -> bool:
        return False


class BumbleBox:
    """The firmware of a box with a radio. `now` is its counter of milliseconds, which a test moves."""

    def __init__(self, link: VirtualLink, world: World, most_mtu: int = MOST_MTU) -> None:
        self.link, self.world, self.now = link, world, 0
        self.buffer, self.transport = world.bluetooth()
        self.connections: dict[int, Connection] = {}
        self.device = _device(link, "box", "F0:F0:F0:F0:F0:F0")
        self.device.gatt_server.max_mtu = most_mtu
        self.device.pairing_config_factory = lambda _: PairingConfig(delegate=NoPairing())
        self.device.on("connection", self._connected)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: dict[int, asyncio.Lock] = {}
        self._from_box: Attribute[bytes] = Characteristic(
            FROM_BOX, Characteristic.Properties.NOTIFY, Characteristic.Permissions(0)
        )
        self._add_services()

    async def start(self) -> None:
        await self.device.power_on()
        await self.advertise()

    async def advertise(self) -> None:
        """Advertise the name under a new address if a link is free."""
        await self.device.stop_advertising()
        if not self.transport.has_room:
            return
        self.device.random_address = Address.generate_private_address(secrets.token_bytes(16))
        await self.device.send_sync_command(
            hci.HCI_LE_Set_Random_Address_Command(random_address=self.device.random_address)
        )
        await self.device.start_advertising(
            advertising_data=self.world.advertisement,
            scan_response_data=b"",
            advertising_interval_min=INTERVAL_MS,
            advertising_interval_max=INTERVAL_MS,
        )

    async def tick(self, milliseconds: int = 0) -> None:
        """Let time pass, and end the links that are due."""
        self.now += milliseconds
        for number in self.transport.tick(self.now):
            await self.connections[number].disconnect()
        for number in self.connections:
            self._start(self._send(number))
        await self.link.settled()

    def _add_services(self) -> None:
        read, write = Characteristic.Properties.READ, Characteristic.Properties.WRITE
        self.device.add_service(
            Service(
                SERVICE,
                [
                    Characteristic(
                        TO_BOX,
                        write | Characteristic.Properties.WRITE_WITHOUT_RESPONSE,
                        Characteristic.WRITEABLE,
                        CharacteristicValue(write=self._written),
                    ),
                    self._from_box,
                    Characteristic(
                        SIZE,
                        read,
                        Characteristic.READABLE,
                        CharacteristicValue(read=lambda connection: self.world.size_value(connection.att_mtu)),
                    ),
                ],
            )
        )
        name = CharacteristicValue(read=lambda _: self.world.advertised_name.encode())
        name_characteristic = Characteristic(gatt.GATT_DEVICE_NAME_CHARACTERISTIC, read, Characteristic.READABLE, name)
        self.device.add_service(Service(gatt.GATT_GENERIC_ACCESS_SERVICE, [name_characteristic]))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _connected(self, connection: Connection) -> None:
        number = self.world.connect()
        self.transport.connect(number, self.now)
        self.connections[number], self._sending[number] = connection, asyncio.Lock()
        connection.on("disconnection", lambda *_: self._disconnected(number))
        self._start(self.advertise())  # the connection has ended the advertisement

    def _disconnected(self, number: int) -> None:
        del self.connections[number]
        self.transport.disconnect(number)
        self.world.disconnect(number)
        self._start(self.advertise())

    def _written(self, connection: Connection, fragment: bytes) -> None:
        number = next(each for each, known in self.connections.items() if known is connection)
        message = self.transport.write(number, bytes(fragment), self.now)
        if message is not None:
            reply = self.world.say(number, message)
            self.transport.reply(number, reply, self.now, is_proven=self.world.is_proven(number))
        self._start(self._send(number))

    async def _send(self, number: int) -> None:
        """Notify of all fragments that wait for this link. Its ATT_MTU bounds each: bumble would cut a longer one."""
        connection = self.connections.get(number)
        if connection is None:
            return
        async with self._sending[number]:
            while self.connections.get(number) is connection and (
                fragment := self.transport.next_fragment(number, connection.att_mtu - 3, self.now)
            ):
                await self.device.notify_subscriber(connection, self._from_box, fragment)


@dataclass
class Found:
    """An advertisement that a phone has received."""

    address: Address
    data: bytes
    name: str
    services: list[UUID]


class BumblePhone:
    """A phone as the GATT client. It begins a conversation by `connect`."""

    def __init__(self, link: VirtualLink, number: int, *, with_response: bool = True) -> None:
        self.link, self.with_response = link, with_response
        self.device = _device(link, f"phone {number}", f"F1:F1:F1:F1:F1:{number:02X}")
        self.on_notification: Callable[[], None] = lambda: None
        self.is_connected = False

    async def start(self) -> BumblePhone:
        await self.device.power_on()
        return self

    async def find(self) -> Found:
        """The next advertisement of a box."""
        found: asyncio.Future[Found] = asyncio.get_running_loop().create_future()

        def seen(advertisement: Any) -> None:
            data: AdvertisingData = advertisement.data
            services = data.get(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS) or []
            name = data.get(AdvertisingData.COMPLETE_LOCAL_NAME) or ""
            if not found.done():
                found.set_result(Found(advertisement.address, bytes(advertisement.data_bytes), name, services))

        self.device.on("advertisement", seen)
        await self.device.start_scanning(active=False, filter_duplicates=False)
        result = await found
        await self.device.stop_scanning()
        self.device.remove_listener("advertisement", seen)
        return result

    async def connect(self, mtu: int = MOST_MTU, found: Found | None = None) -> BumblePhone:
        """Connect, discover, subscribe, and read `size`."""
        found = found or await self.find()
        self.connection = await self.device.connect(found.address)
        self.is_connected = True
        self.reassembly = Reassembly(*Command)
        self.replies: asyncio.Queue[Whole | Exception] = asyncio.Queue()
        self.connection.on("disconnection", lambda *_: self._disconnected())
        self.peer = Peer(self.connection)
        if mtu > 23:
            await self.peer.request_mtu(mtu)
        (service,) = await self.peer.discover_service(SERVICE)
        await self.peer.discover_characteristics(service=service)
        self._to_box, from_box, size = (
            service.get_characteristics_by_uuid(uuid)[0] for uuid in (TO_BOX, FROM_BOX, SIZE)
        )
        await self.peer.subscribe(from_box, self._notified)
        self.size_value = bytes(await size.read_value())
        self.size = int.from_bytes(self.size_value[1:], "big")
        return self

    async def leave(self) -> None:
        """End the connection, and wait until the box knows."""
        if self.is_connected:
            await self.connection.disconnect()
        await self.link.settled()

    async def write(self, fragment: bytes) -> None:
        await self._to_box.write_value(fragment, with_response=self.with_response)

    async def say(self, message: bytes) -> bytes:
        """The reply to a message. Raises `BoxReported`, `FragmentRejected`, `ExchangeLost`."""
        loop = asyncio.get_running_loop()
        sending, receiving = loop.create_task(self._send(message)), loop.create_task(self.replies.get())
        waiting = {receiving} if self.link.delay else {receiving, loop.create_task(self.link.settled())}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done() and not self.link.delay:
            await self.link.settled()  # the response to the last write
        unfinished = [each for each in (sending, *waiting) if not each.done()]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(sending, *unfinished, return_exceptions=True)
        if receiving.cancelled():
            raise ExchangeLost
        reply = receiving.result()
        if isinstance(reply, Exception):
            raise reply
        if reply.command is Command.ERROR:
            raise BoxReported(FragmentError(reply.data[0]))
        return reply.data

    async def _send(self, message: bytes) -> None:
        for fragment in split(message, self.size):
            await self.write(fragment)

    def _notified(self, fragment: bytes) -> None:
        self.on_notification()
        try:
            whole = self.reassembly.accept(bytes(fragment), 0)
        except FragmentRejected as rejected:
            self.replies.put_nowait(rejected)
            return
        if whole is not None and whole.command is not Command.KEEP_ALIVE:
            self.replies.put_nowait(whole)

    def _disconnected(self) -> None:
        self.is_connected = False
        self.replies.put_nowait(ExchangeLost())


class CBumblePhone(BumblePhone):
    """A phone with the Bluetooth side of reference/phone-core."""

    def __init__(self, link: VirtualLink, number: int, *, with_response: bool = True) -> None:
        super().__init__(link, number, with_response=with_response)
        self._side = CPhoneBluetooth(c_phone.library())
        self._now = 0

    async def connect(self, mtu: int = MOST_MTU, found: Found | None = None) -> CBumblePhone:
        await super().connect(mtu, found)
        assert self._side.connect(self.size_value)
        return self

    async def say(self, message: bytes) -> bytes:
        assert self._side.send(message, self._now)
        while self._side.tick(self._now) is Exchange.RUNNING:
            while (fragment := self._side.next(self._now)) is not None:
                await self.write(fragment)
                self._side.written(self._now)
            await self.link.settled()
            self._now += 100
        if self._side.tick(self._now) is not Exchange.REPLY:
            raise ExchangeLost
        return self._side.reply

    def _notified(self, fragment: bytes) -> None:
        self._side.receive(bytes(fragment), self._now)

    def _disconnected(self) -> None:
        super()._disconnected()
        self._side.lose()


@dataclass
class Driver:
    """The app of a driver, with a key of the world's box."""

    world: World
    key: PrivateKey = field(default_factory=PrivateKey.generate)
    counter: int = 0

    def __post_init__(self) -> None:
        registration = phone.registration("somebody", self.key.public, NONCE, self.key.sign)
        self._answer = self.world.keys(self.world.put_device(registration)["id"])

    async def open(self, over: BumblePhone) -> link_messages.Result:
        """Say hello, and open."""
        return await self._open(over, await self._hello(over))

    async def converse(self, over: BumblePhone) -> list[bytes]:
        """A first conversation: hello, artefacts, hello, open, the whole log."""
        lists = (unb64(each["statusList"]) for each in self._answer["boxes"][0]["statusLists"])
        artefacts = [unb64(self._answer["keySet"]), *lists]
        challenge = await self._hello(over)
        for said in phone.brought(link_messages.read(challenge, link_messages.Challenge), ISS, artefacts):
            reply = await over.say(link_messages.write(said))
            assert link_messages.read(reply, link_messages.AcceptedMessage) == link_messages.AcceptedMessage(0)
        await self._open(over, await self._hello(over))
        return await self._fetch(over)

    async def _hello(self, over: BumblePhone) -> bytes:
        return await over.say(link_messages.write(link_messages.hello()))

    async def _open(self, over: BumblePhone, challenge: bytes) -> link_messages.Result:
        self.counter += 1
        key = unb64(self._answer["keys"][0]["key"])
        said = phone.answer(challenge, key, 1, self.counter, self.key.sign)
        return link_messages.read(await over.say(link_messages.write(said)), link_messages.Result)

    async def _fetch(self, over: BumblePhone) -> list[bytes]:
        entries: list[bytes] = []
        while True:
            reply = await over.say(link_messages.write(link_messages.Fetch(len(entries) + 1)))
            fresh = link_messages.read(reply, link_messages.EntriesMessage).entries
            if not fresh:
                return entries
            entries += fresh
