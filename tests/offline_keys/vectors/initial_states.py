"""The initial states of the vectors, made by the reference box."""

from __future__ import annotations

import functools
import hashlib

from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.state import LINKS, BoxMemory
from tests.offline_keys.fixed_keys import Own, public
from tests.offline_keys.vectors.message_recipes import Built, Json
from tests.offline_keys.vectors.state_json import dump

NOW = 1_800_000_000  # at tick 1000
DAY = 86_400
ISS, NAME = "customer:7", "box:1041:3"
SECRET = hashlib.sha256(b"keyrack vectors: secret").digest()
REVOKED = {1: [0, 9], 2: [3, 64, 2046]}


def uri(generation: int) -> str:
    return f"https://keyrack.example/v3/boxes/1041/status?epoch=3&generation={generation}"


def random(number: int) -> bytes:
    return hashlib.sha256(f"keyrack vectors: random {number}".encode()).digest()[:16]


def key(**claims: object) -> Json:
    """A key of phone-1 that opens and closes."""
    return {
        "message": "key",
        "signer": "issuing-2",
        "claims": {
            "iss": ISS,
            "sub": "u-4711",
            "aud": NAME,
            "exp": NOW + 6 * DAY,
            "nbf": NOW - DAY,
            "iat": NOW - DAY,
            "cti": "000102030405060708090a0b0c0d0e0f",
            "cnf": "phone-1",
            "status": {"idx": 7, "uri": uri(2)},
            "assignment": 90210,
            "rights": [1, 2],
            "limit": 3 * DAY,
        }
        | claims,
    }


def answer(**claims: object) -> Json:
    return {
        "message": "answer",
        "signer": "phone-1",
        "claims": {"aud": NAME, "command": 1, "counter": NOW * 1000} | claims,
    }


def key_set(**claims: object) -> Json:
    return {
        "message": "keyset",
        "signer": "root",
        "claims": {"iss": ISS, "iat": NOW - 30 * DAY, "sequence": 1} | keys("1") | claims,
    }


def keys(*numbers: str) -> Json:
    """The claims of a key set that names these keys of each kind."""
    return {"keys": [f"issuing-{each}" for each in numbers], "service-keys": [f"service-{each}" for each in numbers]}


def new_root(**claims: object) -> Json:
    return {
        "message": "root",
        "signer": "root",
        "claims": {"iss": ISS, "iat": NOW - DAY, "sequence": 3, "root": "next-root"} | claims,
    }


def status_list(generation: int, iat: int, **claims: object) -> Json:
    return {
        "message": "statuslist",
        "signer": "issuing-2",
        "claims": {
            "iss": ISS,
            "sub": uri(generation),
            "aud": NAME,
            "exp": iat + 7 * DAY,
            "iat": iat,
            "status_list": {"revoked": REVOKED.get(generation, [])},
            "ttl": 300,
            "generation": generation,
        }
        | claims,
    }


def time(iat: int) -> Json:
    return {"message": "time", "signer": "service-2", "claims": {"iss": ISS, "aud": NAME, "iat": iat}}


def receipt(number: int, digest: str, **claims: object) -> Json:
    return {
        "message": "receipt",
        "signer": "service-2",
        "claims": {"iss": ISS, "aud": NAME, "iat": NOW - 60, "upto": [number, digest]} | claims,
    }


def provisioning(iat: int, **claims: object) -> Json:
    return {
        "message": "provisioning",
        "signer": "service-1",
        "claims": {
            "iss": ISS,
            "aud": NAME,
            "iat": iat,
            "root": "root",
            "box": public("box").thumbprint.hex(),
            "advertising": "a0" * 16,
        }
        | claims,
    }


class Life:
    """A box, and the events of its life."""

    def __init__(self) -> None:
        self.state: BoxMemory = firmware.reset(public("box"), SECRET, 0)
        self.said = 0
        self.connect(10)

    def connect(self, tick: int) -> None:
        """Connect all three links, which were free."""
        for _ in range(LINKS):
            self.state, place = firmware.connect(self.state, tick)
            assert place is not None

    def hear(self, tick: int, on: int, recipe: Json) -> firmware.MessageResult:
        built = Built(recipe, dump(self.state)["links"])
        self.said += 1
        outcome = firmware.receive(self.state, on, built.message, tick, random(self.said), Own())
        self.state = outcome.state
        return outcome


@functools.cache
def fresh() -> BoxMemory:
    """A box after its reset, with a challenge at tick 20."""
    life = Life()
    assert not life.hear(20, 0, {"say": "hello"}).code
    return life.state


@functools.cache
def working() -> BoxMemory:
    """A box in use: two keys of each kind, two lists, and a log.

    A receipt has freed the beginning of the log. The box was started twice. At tick 1000 link 0 got a challenge; link 1
    has proven a valid key at tick 950.
    """
    life = Life()
    life.hear(20, 0, {"say": "hello"})
    signed_by_first = {"signer": "issuing-1"}
    first = status_list(1, NOW - 20 * DAY, status_list={"revoked": []}) | signed_by_first
    provision = {
        "say": "provision",
        "provisioning": provisioning(NOW - 20 * DAY),
        "keyset": key_set(),
        "list": first,
    }
    said = [life.hear(25, 0, provision)]
    life.state = firmware.start(life.state.kept, 0, 19 * DAY - 100, Own())
    life.connect(50)
    second = key_set(sequence=2, iat=NOW - 8 * DAY, **keys("1", "2"))
    carried = [second, status_list(1, NOW - 7300), status_list(2, NOW - 7200)]
    said += [life.hear(100, 0, {"say": "carry", "artefact": each}) for each in carried]
    # The clock is right from here on
    life.hear(898, 0, {"say": "hello"})
    said.append(life.hear(900, 0, {"say": "carry", "artefact": time(NOW - 100)}))
    for tick, command in ((920, 1), (930, 2), (940, 1), (948, 2)):
        life.hear(tick, 1, {"say": "hello"})
        count = (NOW - 1000 + tick) * 1000
        use = {"say": "open", "key": key(), "answer": answer(command=command, counter=count), "answers": 1}
        said.append(life.hear(tick + 2, 1, use))
    upto = firmware.log.fetch(life.state.kept.log, 2).entries[0]
    freeing = receipt(2, hashlib.sha256(upto).hexdigest())
    said.append(life.hear(960, 0, {"say": "carry", "artefact": freeing}))
    life.hear(1000, 0, {"say": "hello"})
    assert not any(outcome.code for outcome in said), [outcome.code.text for outcome in said]
    return life.state


def entry(number: int) -> str:
    """The SHA-256 of an entry of the working box."""
    log = working().kept.log
    return hashlib.sha256(log.entries[number - log.first]).hexdigest()
