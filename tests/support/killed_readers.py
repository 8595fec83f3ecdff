"""Programs that follow the change log, and are killed at random changes."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tests.support.people import Person
from tests.support.servers import DEADLINE

CHANGES = 60


def check_no_change_is_lost(
    person: Person, command: Sequence[str | Path], directory: Path, environment: Mapping[str, str] | None, seed: int
) -> None:
    """Kill and start the program until it has printed every number.

    It stores its position in the directory. It may print a change again, and must leave none out.
    """
    pick = random.Random(seed)
    seen: list[int] = []
    made = 0
    while not seen or seen[-1] < CHANGES:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        stop = pick.randint(1, 15)
        for _ in range(stop if made < CHANGES else 0):
            person.car(f"Killed {made}")
            made += 1
        for _ in range(stop):
            seen.append(int(process.stdout.readline()))
            if seen[-1] >= CHANGES:
                break
        process.kill()
        seen += [int(line) for line in process.stdout.read().split()]
        process.wait(DEADLINE)
        process.stdout.close()
    assert sorted(set(seen)) == list(range(1, max(seen) + 1))
    assert all(after <= before + 1 for before, after in pairwise(seen)), "a number is missing"
