"""The schedule of a simulation: which events happen when, from a seed."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from itertools import count

from keyrack.offline_keys import status_list_slots
from keyrack.simulator.offline import final_sync
from keyrack.simulator.offline.attackers import Loot, Thieves
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.box_knowledge import Knowledge
from keyrack.simulator.offline.key_thief import KeyThief
from keyrack.simulator.offline.manager import DAY, HOUR, Manager, NotDone
from keyrack.simulator.offline.people import People, PhoneOwner
from keyrack.simulator.offline.provisioning_tool import enrol
from keyrack.simulator.offline.world import World

WEEK = 7 * DAY
APART = 20  # minimum seconds between two events, so that the bucket of a box can refill
HOT = -5 / DAY  # drift per second of a clock that loses 5 s a day
RATES = (HOT, 100e-6, -100e-6, 20e-6, -20e-6, 5e-6)

Act = Callable[[], Awaitable[None]]


class Weeks:
    """All events of a simulation until its end."""

    def __init__(self, world: World, weeks: float) -> None:
        self._world = world
        self._manager, self._people, self._thieves = Manager(world), People(world), Thieves(world)
        self._owners: list[PhoneOwner] = []
        self._end = world.at + int(weeks * WEEK)
        self._queue: list[tuple[int, int, Act]] = []
        self._numbers = count()

    async def run(self, progress: Callable[[int], None]) -> None:
        """Run the simulation; `progress` gets the seconds so far. At the end all logs are delivered and compared."""
        world, began = self._world, self._world.at
        while self._queue:
            at, _, act = heapq.heappop(self._queue)
            world.at = max(at, world.at + APART)
            if world.at >= self._end:
                break
            await act()
            progress(world.at - began)
        world.at = max(world.at + APART, self._end)
        await final_sync.check(world, self._manager)

    def _in(self, seconds: float, act: Act) -> None:
        heapq.heappush(self._queue, (self._world.at + int(seconds), next(self._numbers), act))

    def _often(self, seconds: float, act: Act) -> None:
        """Repeat an action at random intervals with this average."""

        async def once() -> None:
            self._in(self._world.random.expovariate(1 / seconds), once)
            await act()

        self._in(self._world.random.expovariate(1 / seconds), once)

    async def begin(self, cars: int, users: int) -> None:
        """Create cars with boxes, one car without a box, and users with phones and rights; schedule all events."""
        world, random, manager = self._world, self._world.random, self._manager
        world.cars = [await manager.car(f"Car {number}") for number in range(1, cars + 2)]
        world.users = [await manager.user(number) for number in range(1, users + 1)]
        for number, car in enumerate(world.cars[:cars]):
            product = await world.operator.box(f"GARAGE-{number + 1}")
            await manager.install(product, car)
            rate = RATES[number] if number < len(RATES) else random.uniform(-100e-6, 100e-6)
            world.boxes[product] = VirtualBox(product, rate, random, world.at)
            await self._enrol(product, car)
        await world.operator.choose(world.ledger.books.limit, opens_uncertain=world.ledger.opens_uncertain)
        for user in world.users:
            for end in (None, world.at + random.randrange(2 * DAY, 9 * DAY)):
                start = world.at + random.choice((-DAY, 0, DAY))
                await manager.assign(random.choice(world.cars[:cars]), user, start, end)
            self._owners.append(await self._people.owner(user))
        self._schedule(cars)

    def _schedule(self, cars: int) -> None:
        for owner in self._owners:
            self._often(owner.habit, lambda owner=owner: self._people.meet(owner))
            self._often(8 * HOUR, lambda owner=owner: self._people.visit(owner))
            self._in(0, lambda owner=owner: self._people.meet(owner))
        self._often(WEEK / (4 * cars), self._decide)
        self._often(WEEK / cars, self._lose_power)
        self._often(2 * DAY, self._lose_phone)
        self._often(2 * DAY, self._copy_phone)
        self._often(3 * DAY, self._end_service)
        self._often(4 * DAY, self._move_box)
        self._often(DAY / (8 * cars), self._steal)
        self._often(8 * HOUR, self._fetch)
        self._often(2 * DAY, self._stop_clock)
        self._often(DAY / 2, self._carry_old)
        self._often(2 * DAY, self._forge)
        self._often(DAY, self._tend)
        self._often(DAY / 2, self._flood)
        length = self._end - self._world.at
        self._in(length * 0.2, self._replace_root)
        self._in(length * 0.3, self._take_back)
        self._in(length * 0.45, self._rotate)
        self._in(length * 0.6, self._reset_box)
        self._in(length * 0.7, self._steal_issuing_key)

    # Events

    async def _enrol(self, product: int, car: int | None) -> None:
        world, box = self._world, self._world.boxes[product]
        name = await enrol(world.client, box, world.at)
        sequence = await world.operator.sequence()
        world.ledger.books.enrol(product, name, car, world.at)
        world.ledger.boxes[product] = Knowledge(name, box.rate, world.at, listed=world.at, sequence=sequence)

    async def _decide(self) -> None:
        try:
            await self._manager.decide()
        except NotDone:
            self._world.happens("changes of assignments that came to nothing")

    async def _lose_power(self) -> None:
        """Cut the power of a box for a while; its clock keeps running or stops."""
        world = self._world
        product = world.random.choice([*world.boxes])
        if not world.boxes[product].is_on:
            return
        stood = world.random.random() < 0.4
        world.boxes[product].lose_power(world.at)
        world.ledger.boxes[product].lose_power(world.at)
        world.happens("losses of power, the clock stood" if stood else "losses of power, the clock went on")

        async def again() -> None:
            world.boxes[product].get_power(world.at, stood=stood)
            world.ledger.boxes[product].get_power(world.at, stood=stood)

        self._in(world.random.choice((60, 600, 5 * HOUR)), again)

    async def _lose_phone(self) -> None:
        """Lose a phone; hours or days later the manager removes it, and the user gets a new one."""
        world, owner = self._world, self._world.random.choice(self._owners)
        phone = await self._people.lose(owner)
        if phone is None:
            return
        self._thieves.find(phone)

        async def remove() -> None:
            await self._manager.remove_phone(owner.user, phone.id)
            world.happens("phones removed")
            await self._people.replace(owner)

        self._in(world.random.randrange(HOUR, 3 * DAY), remove)

    async def _copy_phone(self) -> None:
        phones = [owner.phone for owner in self._owners if owner.phone is not None and owner.phone.keys]
        if phones:
            self._thieves.copy(self._world.random.choice(phones))

    async def _end_service(self) -> None:
        """End the service of a box, and reinstate it later."""
        world = self._world
        product = world.random.choice([*world.boxes])
        fitting = world.ledger.books.boxes[product]
        if not fitting.is_served:
            return
        await world.operator.serve(product, is_served=False)
        world.ledger.books.serve(product, world.at, is_served=False)
        world.happens("services ended")

        async def again() -> None:
            await world.operator.serve(product, is_served=True)
            world.ledger.books.serve(product, world.at, is_served=True)

        self._in(world.random.randrange(HOUR, 2 * DAY), again)

    async def _move_box(self) -> None:
        """Move a box from its car to the car without a box."""
        world, books = self._world, self._world.ledger.books
        products = [product for product, box in books.boxes.items() if box.is_served]
        free = next(car for car in world.cars if all(box.car != car for box in books.boxes.values()))
        if not products:
            return
        product = world.random.choice(products)
        car = books.boxes[product].car
        assert car is not None  # noqa: S101 - it is always in a car outside this function
        await self._manager.take_out(product, car)
        await self._manager.install(product, free)
        books.boxes[product].car = free
        world.happens("boxes put into another car")
        for user in world.random.sample(world.users, 2):
            await self._manager.assign(free, user, world.at, None)

    async def _rotate(self) -> None:
        await self._world.operator.rotate()
        self._world.happens("issuing keys rotated")

    async def _replace_root(self) -> None:
        await self._world.operator.replace_root()
        self._world.happens("roots replaced")

    async def _reset_box(self) -> None:
        """Reset a box whose log was delivered, and enrol it. The first phone confirms the enrolment."""
        world = self._world
        products = [product for product, fitting in world.ledger.books.boxes.items() if fitting.is_served]
        product = next((candidate for candidate in products if world.boxes[candidate].is_on), None)
        if product is None:
            return
        await final_sync.bring_home(world, self._manager, product)
        world.boxes[product].reset(world.at)
        await self._enrol(product, world.ledger.books.boxes[product].car)
        await final_sync.bring_home(world, self._manager, product)
        world.happens("boxes enrolled again")

    async def _tend(self) -> None:
        """Do the server's housekeeping at the pace of the simulation."""
        await status_list_slots.recycle_slots(self._world.operator.db, self._world.operator.settings)

    # Attacks

    def _loot(self) -> Loot | None:
        return self._world.random.choice(self._thieves.loot) if self._thieves.loot else None

    async def _fetch(self) -> None:
        """Fetch keys with a found phone, which works until it is removed."""
        loot = self._loot()
        if loot is not None and not loot.is_copy:
            await self._thieves.fetch(loot)

    async def _steal(self) -> None:
        self._thieves.attack(self._world.random.choice([*self._world.boxes]))

    async def _flood(self) -> None:
        self._thieves.flood(self._world.random.choice([*self._world.boxes]))

    async def _take_back(self) -> None:
        """Try to push out an entry, once a thief has a key."""
        loot = self._loot()
        if loot is None or not loot.keys or not await self._thieves.take_back(loot, loot.keys[-1].product):
            self._in(6 * HOUR, self._take_back)

    async def _steal_issuing_key(self) -> None:
        """Copy an issuing key, and revoke it a day later. The thief continues to use it."""
        world = self._world
        thief = KeyThief(world, await world.operator.leak_issuing_key())
        world.happens("issuing keys stolen")

        async def attack() -> None:
            thief.attack(world.random.choice([*world.boxes]))

        self._often(2 * HOUR, attack)

        async def revoke() -> None:
            await world.operator.rotate(revoke=True)
            world.ledger.revoking = await world.operator.sequence(), world.at
            world.ledger.books.revoke_issuing_keys(world.at)
            world.happens("issuing keys revoked")

        self._in(DAY, revoke)

    async def _stop_clock(self) -> None:
        if (loot := self._loot()) is None or (product := self._thieves.stop_the_clock(loot)) is None:
            return

        async def start() -> None:
            self._thieves.start_the_clock(loot, product)

        self._in(self._world.random.choice((HOUR, 8 * HOUR, 2 * DAY)), start)

    async def _carry_old(self) -> None:
        self._thieves.carry_old(self._world.random.choice([*self._world.boxes]))

    async def _forge(self) -> None:
        if (loot := self._loot()) is not None and loot.keys:
            await self._thieves.forge(loot, loot.keys[-1].product)
