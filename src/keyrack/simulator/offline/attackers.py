"""In charge of thieves: what they do with phones that they have found, with what they have copied, and with boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyrack.core.api_client.responses import ApiError
from keyrack.offline_keys import cose
from keyrack.offline_keys.link_messages import CarryMessage, Open
from keyrack.offline_keys.message_fields import ENTRY, OPEN, STATUS_LIST
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.simulator.offline.phone import HeldPhoneKey, VirtualPhone
from keyrack.simulator.offline.world import World

FOUND = "a found phone, lists withheld"
STOPPED = "a found phone, after the battery was out"
COPIED = "a copied private key"
BEHIND = "a copied private key, with its old counter"
STOLEN_KEY = "a key on another phone"
REPLAYED = "recorded messages"
ALTERED = "altered messages"
ELSEWHERE = "a key at another box"

TRICKS = 0.4  # of who stands at a box with a good key try something else, too
GANG = 10  # who come, with what was taken last
WAIT = 10  # seconds, in which a box's bucket fills


@dataclass(slots=True)
class Loot:
    """A phone that is in other hands, and what is kept of it."""

    phone: VirtualPhone
    keys: list[HeldPhoneKey]
    is_copy: bool  # its owner has it still


class Thieves:
    """Whoever opens what is not theirs, as far as they get."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stranger = PrivateKey.generate()
        self.loot: list[Loot] = []

    def find(self, phone: VirtualPhone) -> None:
        """A lost phone, unlocked."""
        self.loot.append(Loot(phone, list(phone.keys.values()), is_copy=False))

    def copy(self, phone: VirtualPhone) -> None:
        """All that is in a phone, its private key too, without its owner noticing."""
        kept = replace(phone, keys=dict(phone.keys), carried=dict(phone.carried), pocket=[], seen=dict(phone.seen))
        self.loot.append(Loot(kept, list(phone.keys.values()), is_copy=True))
        self._world.ledger.copied.add(phone.id)
        self._world.happens("private keys copied")

    async def fetch(self, loot: Loot) -> None:
        """Ask the server, too, for as long as the phone has not been removed."""
        try:
            await self._world.meet(loot.phone)
        except ApiError:
            return
        loot.keys += [key for key in loot.phone.keys.values() if key not in loot.keys]

    def attack(self, product: int) -> None:
        """Stand at a box with all that there is for it, and try one after the other."""
        world, random = self._world, self._world.random
        for loot in self.loot[-GANG:]:
            keys = [key for key in loot.keys if key.product == product]
            if not keys or not world.boxes[product].is_on:
                continue
            self._use(loot, random.choice(keys[-2:]))
            if random.random() < TRICKS:
                random.choice((self._stolen, self._again, self._alter, self._elsewhere))(loot, random.choice(keys))
            world.boxes[product].leave()
            world.at += WAIT

    def _use(self, loot: Loot, key: HeldPhoneKey) -> None:
        """Open by a good key and the good private key; nothing is carried that would tell of a revocation."""
        by, count = COPIED if loot.is_copy else FOUND, None
        if loot.is_copy and self._world.random.random() < 0.5:
            by, count = BEHIND, loot.phone.count + 1
        _, _, result = self._world.show(loot.phone, key.product, key.raw, OPEN, by, count=count)
        if result.entry:
            loot.phone.pocket.append(result.entry)

    def _stolen(self, loot: Loot, key: HeldPhoneKey) -> None:
        """The bytes of the key, without the private key to it."""
        other = replace(loot.phone, key=self._stranger, count=0)
        self._world.show(other, key.product, key.raw, OPEN, STOLEN_KEY)

    def _again(self, loot: Loot, key: HeldPhoneKey) -> None:
        """What was recorded of somebody's opening, at a new challenge."""
        world = self._world
        recorded = [said for product, said in world.heard if product == key.product]
        if recorded:
            world.challenge(key.product)
            world.say(key.product, world.random.choice(recorded), loot.phone, OPEN, REPLAYED, is_answer=False)

    def _alter(self, loot: Loot, key: HeldPhoneKey) -> None:
        """A good answer to a challenge that was altered on its way, or an answer that was."""
        world, random = self._world, self._world.random
        challenge = world.challenge(key.product)
        sent_challenge = challenge._replace(time=challenge.time - 3_600) if random.random() < 0.5 else challenge
        said = loot.phone.answer(sent_challenge, key.raw, OPEN, world.at * 1_000)
        if sent_challenge is challenge:
            said = _with_a_flaw(said, random.randrange(8 * len(said.answer)))
        world.say(key.product, said, loot.phone, OPEN, ALTERED, is_answer=False)

    def _elsewhere(self, loot: Loot, key: HeldPhoneKey) -> None:
        others = [product for product, box in self._world.boxes.items() if product != key.product and box.is_on]
        if others:
            self._world.show(loot.phone, self._world.random.choice(others), key.raw, OPEN, ELSEWHERE)

    def stop_the_clock(self, loot: Loot) -> int | None:
        """Take the battery out of a box for which there is a key; the box, until somebody puts it in again."""
        world = self._world
        if not loot.keys or not world.boxes[loot.keys[-1].product].is_on:
            return None
        product = loot.keys[-1].product
        world.boxes[product].lose_power(world.at)
        world.ledger.boxes[product].lose_power(world.at)
        world.happens("batteries taken out by thieves")
        return product

    def start_the_clock(self, loot: Loot, product: int) -> None:
        """Put the battery in again, and open at once."""
        world = self._world
        world.boxes[product].get_power(world.at, stood=True)
        world.ledger.boxes[product].get_power(world.at, stood=True)
        for key in [key for key in loot.keys if key.product == product][-1:]:
            world.show(loot.phone, product, key.raw, OPEN, STOPPED)

    def carry_old(self, product: int) -> None:
        """Bring a box what it must not take: lists of before, and what is of other boxes."""
        world, random = self._world, self._world.random
        if world.boxes[product].is_on and world.lists:
            for of, old in random.sample(world.lists, min(3, len(world.lists))):
                listed = world.ledger.boxes[product].listed
                if of != product or cose.read(old, STATUS_LIST).claims["iat"] <= listed:
                    world.challenge(product)
                    world.carry(product, CarryMessage(old))
                    world.happens("old lists and those of other boxes offered")

    async def forge(self, loot: Loot, product: int) -> None:
        """Bring home entries that the box has not written: signed by a stranger, or by the key of the opened box."""
        world, random = self._world, self._world.random
        name, box = world.ledger.boxes[product].name, world.boxes[product]
        own = [entry for entry in loot.phone.pocket if cose.read(entry, ENTRY).claims["aud"] == name]
        if not own:
            return
        await loot.phone.bring_home(own)
        claims = cose.read(random.choice(own), ENTRY).claims
        claims = claims | {"counter": claims["counter"] + random.randrange(1, 1 << 20)}
        kind, sign = random.choice((("Forgery", self._stranger.sign), ("Fork", box.forge)))
        await loot.phone.bring_home([cose.sign(ENTRY, box.kid, claims, sign)])
        world.expected[kind] += 1


def _with_a_flaw(said: Open, bit: int) -> Open:
    """The message with one bit of its answer turned."""
    turned = bytearray(said.answer)
    turned[bit // 8] ^= 1 << bit % 8
    return Open(said.key, bytes(turned))
