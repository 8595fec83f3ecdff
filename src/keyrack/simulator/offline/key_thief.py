"""A thief with a copied issuing key, who forges keys and lists, and tries to set clocks and to free entries."""

from __future__ import annotations

import re
import secrets
from typing import Any

from keyrack.offline_keys import cose, status_list_bits
from keyrack.offline_keys.issuing_keys import IssuingKeySigner, issuer
from keyrack.offline_keys.link_messages import CarryMessage
from keyrack.offline_keys.message_fields import KEY, OPEN, RECEIPT, STATUS_LIST, TIME, Message, Status
from keyrack.simulator.offline.phone import VirtualPhone
from keyrack.simulator.offline.summary import MADE_KEY
from keyrack.simulator.offline.world import World

WEEK = 604_800
HIGHEST = (1 << 53) - 1  # the highest generation
GENERATION = re.compile("[0-9]+$")  # in a list's URI


class KeyThief:
    """A thief who uses a stolen issuing key at boxes."""

    def __init__(self, world: World, signer: IssuingKeySigner) -> None:
        self._world = world
        self._signer = signer
        self._phone = VirtualPhone(world.client, world.operator.customer, 0)

    def attack(self, product: int) -> None:
        """Try everything that the key can sign at one box."""
        world = self._world
        if not world.boxes[product].is_on:
            return
        self._set_the_clock(product)
        self._free_entries(product)
        self._sign_lists(product)
        self._open(product)
        world.boxes[product].leave()

    def _sign(self, message: Message, product: int, **claims: Any) -> bytes:
        name = self._world.ledger.boxes[product].name
        common = {"iss": issuer(self._world.operator.customer), "aud": name, "iat": self._world.at}
        return cose.sign(message, self._signer.kid, common | claims, self._signer.key.sign)

    def _set_the_clock(self, product: int) -> None:
        challenge = self._world.challenge(product)
        time = self._sign(TIME, product, iat=challenge.time + self._world.random.choice((-WEEK, WEEK)),
                          nonce=challenge.nonce)  # fmt: skip
        self._refused(product, time, "set its clock")

    def _free_entries(self, product: int) -> None:
        challenge = self._world.challenge(product)
        if challenge.next > 1:
            receipt = self._sign(RECEIPT, product, upto=(challenge.next - 1, challenge.newest))
            self._refused(product, receipt, "freed its log")

    def _refused(self, product: int, artefact: bytes, deed: str) -> None:
        world = self._world
        world.happens("times and receipts signed by a stolen issuing key")
        if world.boxes[product].carry(CarryMessage(artefact), world.at):
            world.summary.disagreements.append(f"{world.ledger.boxes[product].name}: a stolen issuing key {deed}")

    def _sign_lists(self, product: int) -> None:
        """Sign lists without revoked keys.

        They claim the current generation, a later one with the same URI, and the next one with its predictable URI.
        """
        world = self._world
        generation = world.challenge(product).generation
        uri = next(
            (cose.read(each, STATUS_LIST).claims["sub"] for of, each in reversed(world.lists)
             if of == product and cose.read(each, STATUS_LIST).claims["generation"] == generation), None,
        )  # fmt: skip
        if uri is None:
            return
        most = {"exp": world.at + WEEK, "ttl": 300, "status_list": status_list_bits.pack(bytes(status_list_bits.BYTES))}
        for claimed, of, ahead, may in (
            (HIGHEST, uri, 0, False),
            (generation, uri, HIGHEST - world.at, False),
            (generation, uri, WEEK - 60, True),
            (generation + 1, GENERATION.sub(str(generation + 1), uri), WEEK - 60, True),
        ):
            made = self._sign(STATUS_LIST, product, sub=of, generation=claimed, iat=world.at + ahead, **most)
            taken = world.boxes[product].carry(CarryMessage(made), world.at)
            world.happens("lists signed by a stolen issuing key")
            if taken and may:
                world.poisoned.add(product)
                world.ledger.poisoned(product, world.at + ahead, world.at)
            elif taken:
                name = world.ledger.boxes[product].name
                world.summary.disagreements.append(f"{name}: accepted a list that cannot be replaced")

    def _open(self, product: int) -> None:
        """Open with a forged key for the thief's own phone."""
        world = self._world
        uri = f"https://thief.example/{product}"
        lists = [cose.read(each, STATUS_LIST).claims for of, each in world.lists if of == product]
        if lists:
            uri = lists[-1]["sub"]
        made = self._sign(
            KEY, product, sub="thief", exp=world.at + WEEK, nbf=world.at, cti=secrets.token_bytes(16),
            cnf=self._phone.key.public, status=Status(2047, uri), assignment=1, rights=[1, 2, 3], limit=WEEK,
        )  # fmt: skip
        world.show(self._phone, product, made, OPEN, MADE_KEY)
        world.ledger.boxes[product].may_hear(world.at, world.at)
