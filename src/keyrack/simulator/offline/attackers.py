"""Attackers: their attacks with found phones, copied private keys and recorded messages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyrack.core.api_client.responses import ApiError
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.box.log import PLACES
from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.box.verification_budget import LINK_PERIOD
from keyrack.offline_keys.link_messages import CarryMessage, Challenge, Fetch, Open
from keyrack.offline_keys.message_fields import ENTRY, KEY, OPEN, STATUS_LIST
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.phone import answer
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
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

TRICKS = 0.4  # share of thieves with a valid key who also try another attack
GANG = 10  # newest loot that is used at one box
WAIT = 10  # seconds in which a box's bucket refills
FLOOD = 40  # messages on each link


@dataclass(slots=True)
class Loot:
    """A stolen or copied phone, and the keys that were in it."""

    phone: VirtualPhone
    keys: list[HeldPhoneKey]
    is_copy: bool  # the owner still has the phone


class Thieves:
    """Attackers who try to open boxes without a right."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stranger = PrivateKey.generate()
        self.loot: list[Loot] = []

    def find(self, phone: VirtualPhone) -> None:
        """Find a lost, unlocked phone."""
        self.loot.append(Loot(phone, list(phone.keys.values()), is_copy=False))

    def copy(self, phone: VirtualPhone) -> None:
        """Copy a phone with its private key; the owner does not notice."""
        kept = replace(phone, keys=dict(phone.keys), carried=dict(phone.carried), pocket=[], seen=dict(phone.seen))
        self.loot.append(Loot(kept, list(phone.keys.values()), is_copy=True))
        self._world.ledger.copied.add(phone.id)
        self._world.happens("private keys copied")

    async def fetch(self, loot: Loot) -> None:
        """Fetch keys from the server, which works until the phone is removed."""
        try:
            await self._world.meet(loot.phone)
        except ApiError:
            return
        loot.keys += [key for key in loot.phone.keys.values() if key not in loot.keys]

    def attack(self, product: int) -> None:
        """Try all loot for a box, one after the other."""
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
        """Open with a valid key and its private key. No list that reveals a revocation is carried."""
        by, count = COPIED if loot.is_copy else FOUND, None
        if loot.is_copy and self._world.random.random() < 0.5:
            by, count = BEHIND, loot.phone.count + 1
        _, _, result = self._world.show(loot.phone, key.product, key.raw, OPEN, by, count=count)
        if result.entry:
            loot.phone.pocket.append(result.entry)

    def _stolen(self, loot: Loot, key: HeldPhoneKey) -> None:
        """Show the key from a phone without its private key."""
        other = replace(loot.phone, key=self._stranger, count=0)
        self._world.show(other, key.product, key.raw, OPEN, STOLEN_KEY)

    def _again(self, loot: Loot, key: HeldPhoneKey) -> None:
        """Replay a recorded answer to a new challenge."""
        world = self._world
        recorded = [said for product, said in world.heard if product == key.product]
        if recorded:
            world.challenge(key.product)
            world.say(key.product, world.random.choice(recorded), loot.phone, OPEN, REPLAYED, is_answer=False)

    def _alter(self, loot: Loot, key: HeldPhoneKey) -> None:
        """Alter the challenge or the answer on its way."""
        world, random = self._world, self._world.random
        message = world.hello(key.product)
        challenge = link_messages.read(message, Challenge)
        is_altered = random.random() < 0.5
        sent = link_messages.write(challenge._replace(time=challenge.time - 3_600)) if is_altered else message
        said = loot.phone.answer(sent, key.raw, OPEN, world.at * 1_000)
        if not is_altered:
            said = _with_a_flaw(said, random.randrange(8 * len(said.answer)))
        world.say(key.product, said, loot.phone, OPEN, ALTERED, is_answer=False)

    def _elsewhere(self, loot: Loot, key: HeldPhoneKey) -> None:
        others = [product for product, box in self._world.boxes.items() if product != key.product and box.is_on]
        if not others:
            return
        world, other = self._world, self._world.random.choice(others)
        world.show(loot.phone, other, key.raw, OPEN, ELSEWHERE)
        reply = world.boxes[other].say(link_messages.write(Fetch(1)), world.at)
        if world.boxes[other].code is not BoxRefusalCode.NOT_NOW:
            world.summary.disagreements.append(f"a key of {key.box} has read another log: {reply.hex()}")
        world.boxes[other].leave()

    async def take_back(self, loot: Loot, product: int) -> bool:
        """Open, then try to displace the entry from the log with signed times.

        Returns false if the box does not open, because there is no entry to displace then.
        """
        world, box = self._world, self._world.boxes[product]
        keys = [key for key in loot.keys if key.product == product]
        if not keys or not box.is_on:
            return False
        code, _, result = world.show(loot.phone, product, keys[-1].raw, OPEN, FOUND)
        if result.entry:
            loot.phone.pocket.append(result.entry)
        if code is not BoxRefusalCode.GOOD:
            box.leave()
            return False
        first = world.challenge(product).first
        try:
            for _ in range(PLACES):
                if not world.carry(product, await loot.phone.time_for(world.challenge(product))):
                    break
                world.at += LINK_PERIOD
        except ApiError:
            pass  # the server limits times
        world.happens("times brought to push entries out")
        if world.challenge(product).first > first:
            world.summary.disagreements.append(f"{keys[-1].box}: times have pushed out entries")
        box.leave()
        return True

    def flood(self, product: int) -> None:
        """Flood three links with messages, with an overheard key and with a forged one.

        A phone that the box knows must still open, even with a key renewed since.
        """
        world, box = self._world, self._world.boxes[product]
        visitors = [
            (phone, overheard, key)
            for phone, overheard in world.visitors.get(product, ())
            if (key := phone.keys.get(overheard.assignment)) is not None and key.product == product
        ]
        if not box.is_on or not visitors:
            return
        phone, overheard, key = max(visitors, key=lambda visitor: visitor[1].raw != visitor[2].raw)
        world.bring(phone, product)  # an artefact brought later would wait for a token
        box.leave()
        if not box.knows(key.raw):
            return
        links = [box.connect(world.at) for _ in range(LINKS)]
        self._exhaust(product, links, overheard.raw)
        world.at += 1
        self._exhaust(product, links, self._made_up(overheard.raw))  # uses the refilled tokens
        world.happens("floods of messages")
        if not box.remembers(key.raw):
            world.happens("new keys shown during a flood")
        code, _, result = world.show(phone, product, key.raw, OPEN)
        if result.entry:
            phone.pocket.append(result.entry)
        for link in links:
            box.disconnect(link)
        if code is BoxRefusalCode.BUSY:
            world.summary.rights_refused.append(f"{key.box}: a flood has shut out a phone that the box knows")
        box.leave()

    def _exhaust(self, product: int, links: list[int], key: bytes) -> None:
        """Show a key on each link, with answers signed by a stranger, until no token is left."""
        world, box = self._world, self._world.boxes[product]
        for link in links:
            for count in range(FLOOD):
                said = answer(box.hello(world.at, link), key, OPEN, count, self._stranger.sign)
                box.say(link_messages.write(said), world.at, link)
                if box.code is BoxRefusalCode.BUSY:
                    break

    def _made_up(self, key: bytes) -> bytes:
        """This key with the stranger's public key, signed by the stranger."""
        signed = cose.read(key, KEY)
        return cose.sign(KEY, signed.kid, signed.claims | {"cnf": self._stranger.public}, self._stranger.sign)

    def stop_the_clock(self, loot: Loot) -> int | None:
        """Remove the battery of a box with a stolen key, and return its product id.

        None if there is no such box with power.
        """
        world = self._world
        if not loot.keys or not world.boxes[loot.keys[-1].product].is_on:
            return None
        product = loot.keys[-1].product
        world.boxes[product].lose_power(world.at)
        world.ledger.boxes[product].lose_power(world.at)
        world.happens("batteries taken out by thieves")
        return product

    def start_the_clock(self, loot: Loot, product: int) -> None:
        """Put the battery back, and open at once."""
        world = self._world
        world.boxes[product].get_power(world.at, stood=True)
        world.ledger.boxes[product].get_power(world.at, stood=True)
        for key in [key for key in loot.keys if key.product == product][-1:]:
            world.show(loot.phone, product, key.raw, OPEN, STOPPED)

    def carry_old(self, product: int) -> None:
        """Carry artefacts that a box must reject: old lists, and lists of other boxes."""
        world, random = self._world, self._world.random
        if world.boxes[product].is_on and world.lists:
            for of, old in random.sample(world.lists, min(3, len(world.lists))):
                listed = world.ledger.boxes[product].listed
                if of != product or cose.read(old, STATUS_LIST).claims["iat"] <= listed:
                    world.challenge(product)
                    world.carry(product, CarryMessage(old))
                    world.happens("old lists and those of other boxes offered")

    async def forge(self, loot: Loot, product: int) -> None:
        """Deliver forged entries: signed by a stranger, or with the key of an opened box."""
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
    """The message with one flipped bit in its answer."""
    turned = bytearray(said.answer)
    turned[bit // 8] ^= 1 << bit % 8
    return Open(said.key, bytes(turned))
