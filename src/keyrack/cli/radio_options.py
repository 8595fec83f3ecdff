"""The option of the simulated radio, which the simulations share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from keyrack.simulator.offline.radio import RadioConditions

MOST_SHARE = 0.2  # of each fault, so that phones come through
LONGEST_DELAY = 4_900  # milliseconds
SHARES = ("losses", "disconnects", "delays", "busy")
DELAY = "delay"
EXAMPLE = "losses=0.05,busy=0"

RadioFaults = Annotated[
    str,
    typer.Option(
        "--radio",
        metavar="FAULTS",
        help="Faults of the radio. Default: losses=0.01, disconnects=0.01, delays=0.02, delay=2000, busy=0.01.",
    ),
]


def radio_conditions(faults: str) -> RadioConditions:
    """The radio of a garage, with the given faults. Raises a usage error."""
    from keyrack.simulator.offline.radio import GARAGE

    conditions = GARAGE
    for part in filter(None, (part.strip() for part in faults.split(","))):
        name, _, text = part.partition("=")
        if name in SHARES:
            conditions = replace(conditions, **{name: _number(name, text, MOST_SHARE)})
        elif name == DELAY:
            conditions = replace(conditions, longest_delay=int(_number(name, text, LONGEST_DELAY)))
        else:
            raise _error(f"'{name}' is not a fault of the radio; valid: {', '.join((*SHARES, DELAY))}")
    return conditions


def _number(name: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:  # false for nan, too
        raise _error(f"'{text}' is not a value of {name}; valid: 0 to {most}, as in {EXAMPLE}")
    return value


def _error(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--radio")
