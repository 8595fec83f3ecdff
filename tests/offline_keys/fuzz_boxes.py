"""Long fuzzing: mutated messages of the vectors, to both boxes.

`make test-keys-long` runs it: two processes with the box in C under sanitizers, then the fuzzer in C alone, which
begins with the contents of the vectors. The first difference ends the run, and is shown with its input.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys import c_box, c_sources
from tests.offline_keys.box_comparison import Differ, Rivals
from tests.offline_keys.c_sources import BOX
from tests.offline_keys.message_mutations import Mutants, sites
from tests.offline_keys.vectors.state_json import load

VECTORS = Path(__file__).parents[2] / "docs" / "keys-vectors.json"
CORES = 2
LIBRARY = "libkeyrack_box_test.so"
SANITIZED = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
IN_A_ROW = 100  # inputs per vector, as a change of the vector is expensive
LATER = (*[0] * 20, 1, 4, 5, 9, 10, 300, 100_000, 1_000_000, 1 << 40)


@dataclass(frozen=True, slots=True)
class Seed:
    """A vector: its initial state and its message."""

    state: BoxMemory
    tick: int
    link: int
    random: bytes
    message: bytes


def vectors(kind: str) -> list[dict[str, Any]]:
    """The tests of a group."""
    groups = json.loads(VECTORS.read_text())["testGroups"]
    return next(group["tests"] for group in groups if group["type"] == kind)


def states() -> dict[str, Any]:
    groups = json.loads(VECTORS.read_text())["testGroups"]
    return next(group["states"] for group in groups if group["type"] == "Box")


def seeds() -> list[Seed]:
    named = states()
    return [
        Seed(
            load(named[test["state"]] | test["set"]), test["tick"], test["link"], bytes.fromhex(test["random"]),
            bytes.fromhex(test["message"]),
        )
        for test in vectors("Box")
    ]  # fmt: skip


def own_key() -> bytes:
    """The private key of the vectors' box."""
    return bytes.fromhex(json.loads(VECTORS.read_text())["keys"]["box"]["d"])


def run(library: ctypes.CDLL, count: int, seed: int) -> Iterator[BoxRefusalCode]:
    """The codes of so many inputs. Raises `Differ` with the input."""
    random, given = Random(seed), seeds()
    vector, tick = given[0], 0
    rivals = Rivals(library, own_key(), vector.state, vector.tick)
    mutants = Mutants(tuple(each.message for each in given), seed)
    for number in range(count):
        if number % IN_A_ROW == 0:
            vector = random.choice(given)
            rivals.change(vector.state, vector.tick)
        if number % 8 != 7:  # each eighth input continues from the state of the one before
            rivals.begin()
            tick = vector.tick + random.choice(LATER)
        link = vector.link if random.random() < 0.95 else random.choice(rivals.links)
        message = mutants.of(vector.message)
        try:
            if random.random() < 0.02:
                rivals.disconnect(random.choice(rivals.links))
            if random.random() < 0.05 or link not in rivals.links:
                rivals.connect(tick)
            if link not in rivals.links:
                link = rivals.links[0]
            yield rivals.receive(link, message, tick, vector.random)
        except Exception as error:
            said = f"seed {seed}, input {number}, tick {tick}, link {link}: {message.hex()}"
            raise Differ(f"{said}\n{error}") from error


def corpus(directory: Path) -> None:
    """The start corpus of the fuzzer in C: all states and all messages."""
    (directory / "inputs").mkdir(parents=True, exist_ok=True)
    test = c_box.CBox(c_box.library(), own_key(), stubbed=True)
    images: dict[bytes, int] = {}
    for number, each in enumerate(seeds()):
        test.load(each.state, each.tick)
        box = test.test.box
        box.port = box.store = None
        image = ctypes.string_at(ctypes.addressof(box), ctypes.sizeof(box))
        at = images.setdefault(image, len(images) + 1)
        if at >= 64:
            continue
        name = directory / "inputs" / str(number)
        name.write_bytes(bytes([at, 0]) + each.message)
        for place, site in enumerate(sites(each.message)):
            if len(site.around) > 1 and not site.start:
                for kind in range(6):  # KINDS of tests/fuzz.c
                    Path(f"{name}-{place}-{kind}").write_bytes(bytes([100 + at, kind << 3]) + site.raw)
            if site.raw[-1:] and site.level[site.content : site.content + 1] == b"\x78":
                Path(f"{name}-{place}-z").write_bytes(bytes([200, 0]) + site.level[site.content : site.end])
    (directory / "states").write_bytes(b"".join(list(images)[:63]))


def one(library: Path, count: int, seed: int) -> None:
    """Run so many inputs, with a line of progress from time to time."""
    begun, codes = time.monotonic(), Counter[BoxRefusalCode]()
    for number, code in enumerate(run(c_box.library(library), count, seed), 1):
        codes[code] += 1
        if number % 500_000 == 0:
            print(f"seed {seed}: {number:,} inputs, {number / (time.monotonic() - begun):,.0f} a second", flush=True)
    told = {code.text: codes[code] for code in sorted(codes)}
    print(f"seed {seed}: {count:,} inputs in {time.monotonic() - begun:,.0f} s, {told}", flush=True)


def several(count: int, seed: int, seconds: int) -> bool:
    """Run everything: inputs to both boxes on two cores, then the fuzzer in C.

    The fuzzer runs for so long on each core.
    """
    with tempfile.TemporaryDirectory() as directory:
        build = Path(directory)
        BOX.make(build, str(build / LIBRARY), flags=SANITIZED)
        sanitizer = subprocess.run(
            [c_sources.compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True
        )
        environment = os.environ | {"LD_PRELOAD": sanitizer.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
        command = [
            sys.executable,
            "-m",
            "tests.offline_keys.fuzz_boxes",
            "one",
            str(build / LIBRARY),
            str(count // CORES),
        ]
        good = _together([[*command, str(seed + core)] for core in range(CORES)], environment)
        if not good or not seconds or not shutil.which("clang"):
            return good
        corpus(build)
        BOX.make(build, str(build / "fuzz"))
        fuzzer = [str(build / "fuzz"), f"-max_total_time={seconds}", "-max_len=2100", "-print_final_stats=1"]
        named = [
            [*fuzzer, f"-seed={seed + core}", f"-artifact_prefix={build}/", str(build / "inputs")]
            for core in range(CORES)
        ]
        return _together(named, os.environ | {"KR_STATES": str(build / "states")})


def _together(commands: list[list[str]], environment: dict[str, str]) -> bool:
    running = [subprocess.Popen(command, env=environment) for command in commands]
    return {each.wait() for each in running} == {0}


def main(arguments: list[str]) -> None:
    if arguments[0] == "one":
        one(Path(arguments[1]), int(arguments[2]), int(arguments[3]))
    else:
        sys.exit(not several(*(int(each) for each in arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
