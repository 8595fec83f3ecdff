"""People with rights: contacts of their phones with the server, and visits to boxes."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.offline_keys.message_fields import CLOSE, OPEN
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.simulator.offline.manager import DAY
from keyrack.simulator.offline.phone import HeldPhoneKey, VirtualPhone
from keyrack.simulator.offline.world import World

VISITORS = 5  # visitors that are remembered for a box
HABITS = (0.6 * DAY, 0.6 * DAY, 0.6 * DAY, 1.5 * DAY, 4 * DAY, 9 * DAY)  # average time between two contacts


@dataclass(slots=True)
class PhoneOwner:
    """A user with the current phone, if any."""

    user: int
    habit: float
    phone: VirtualPhone | None


class People:
    """Actions of users with their phones."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def owner(self, user: int) -> PhoneOwner:
        """Create the owner of a new phone."""
        return PhoneOwner(user, self._world.random.choice(HABITS), await self._world.new_phone(user))

    async def meet(self, owner: PhoneOwner) -> None:
        """Deliver logs from the phone to the server, and fetch keys and lists."""
        if owner.phone is None:
            return
        await self.deliver(owner.phone)
        await self._world.meet(owner.phone)

    async def deliver(self, phone: VirtualPhone) -> None:
        """Deliver logs: usually all, sometimes a part later, sometimes twice."""
        world, random = self._world, self._world.random
        if not phone.pocket:
            return
        later: list[bytes] = []
        if random.random() < 0.2:
            random.shuffle(phone.pocket)
            half = len(phone.pocket) // 2
            later, phone.pocket = phone.pocket[:half], phone.pocket[half:]
            world.happens("logs brought home in part, out of order")
        if random.random() < 0.2:
            later += phone.pocket
            world.happens("logs brought home twice")
        await phone.empty_pocket(random)
        phone.pocket = later

    async def visit(self, owner: PhoneOwner) -> None:
        """Visit a box, open it, and close it later."""
        world, phone = self._world, owner.phone
        if phone is None or not phone.keys:
            return
        key = world.random.choice(list(phone.keys.values()))
        if world.boxes[key.product].is_on:
            is_certain = world.challenge(key.product).certain
            if world.random.random() < (0.1 if is_certain else 0.5):
                key = await self._meet_there(phone, key)
            self.use(phone, key)
        else:
            world.happens("boxes found without power")

    async def _meet_there(self, phone: VirtualPhone, key: HeldPhoneKey) -> HeldPhoneKey:
        """Let a phone with a network contact the server at the box, and set the box's clock. Returns its key then."""
        world = self._world
        await self.deliver(phone)
        await world.meet(phone)
        now = phone.keys.get(key.assignment)
        if now is None or now.product != key.product:
            return key
        world.bring(phone, key.product)
        challenge = world.challenge(key.product)
        if world.carry(key.product, await phone.time_for(challenge)):
            world.happens("clocks set by a phone with a network")
        return now

    def use(self, phone: VirtualPhone, key: HeldPhoneKey) -> BoxRefusalCode:
        """Act like an app: carry newer artefacts, open, close, and fetch the log."""
        world = self._world
        world.bring(phone, key.product)
        for command in (OPEN, CLOSE):
            code, challenge, result = world.show(phone, key.product, key.raw, command)
            if result.entry:
                phone.keep(world.boxes[key.product], challenge, result, world.at)
            if code is not BoxRefusalCode.GOOD:
                break
            world.visitors[key.product] = [*world.visitors.get(key.product, [])[-VISITORS:], (phone, key)]
            world.at += 60
        world.boxes[key.product].leave()
        return code

    async def lose(self, owner: PhoneOwner) -> VirtualPhone | None:
        """Lose the phone; returns it for its finder."""
        phone, owner.phone = owner.phone, None
        if phone is not None:
            self._world.happens("phones lost")
        return phone

    async def replace(self, owner: PhoneOwner) -> None:
        """Give the user another phone."""
        owner.phone = await self._world.new_phone(owner.user)
        await self._world.meet(owner.phone)
