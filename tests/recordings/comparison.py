"""The comparison of a new recording with the stored one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 10  # differences that a report shows in full


@dataclass(frozen=True)
class Comparison:
    """Missing, new and different exchanges, by file and title."""

    missing: list[str]
    new: list[str]
    different: list[str]
    report: str

    @property
    def is_equal(self) -> bool:
        """Whether both recordings are equal, byte for byte."""
        return not (self.missing or self.new or self.different)


def compare(recorded: Mapping[str, str], replayed: Mapping[str, str]) -> Comparison:
    """Compare two recordings. The report shows the first differences in the order of the replay."""
    missing = [key for key in recorded if key not in replayed]
    new = [key for key in replayed if key not in recorded]
    different = [key for key, text in replayed.items() if key in recorded and recorded[key] != text]
    lines = [
        f"{len(replayed)} exchanges were replayed, {len(recorded)} are recorded.",
        f"{len(different)} differ, {len(missing)} are missing, {len(new)} are new.",
    ]
    lines += [f"missing: {key}" for key in missing[:SHOWN]] + [f"new: {key}" for key in new[:SHOWN]]
    for key in different[:SHOWN]:
        sides = recorded[key].splitlines(), replayed[key].splitlines()
        lines += ["", *difflib.unified_diff(*sides, f"recorded {key}", f"replayed {key}", lineterm="")]
    return Comparison(missing, new, different, "\n".join(lines))
