"""The option of the simulated radio.

Its defaults, and its way into the simulations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyrack import simulator
from keyrack.cli import radio_options
from keyrack.cli.commands import simulate_keys
from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.simulator import SimulationSummary, SimulatorOptions, offline
from keyrack.simulator.offline import Garage, ScenarioSummary, radio
from keyrack.simulator.offline.radio import GARAGE, PERFECT, RadioConditions

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
DEFAULTS = {
    "losses": GARAGE.losses,
    "disconnects": GARAGE.disconnects,
    "delays": GARAGE.delays,
    "delay": GARAGE.longest_delay,
    "busy": GARAGE.busy,
}
NONE = ",".join(f"{name}=0" for name in DEFAULTS)
BAD = "losses=0.2, disconnects=0.1,delays=0.15,delay=4000,busy=0.05"
ACCESS = {
    "KEYRACK_URL": "http://localhost:1/v3", "KEYRACK_API_KEY": "a", "KEYRACK_USERNAME": "b", "KEYRACK_PASSWORD": "c",
    "KEYRACK_CUSTOMER_ID": "1", "KEYRACK_DEVICE_KEY": "d",
}  # fmt: skip


@contextmanager
def no_database() -> Iterator[tuple[Settings, str]]:
    yield Settings(), ""


def run(command: str, *words: str) -> int:
    with pytest.raises(SystemExit) as end:
        application(command)([command, *words])
    return int(end.value.code or 0)


@pytest.fixture
def conditions(monkeypatch: pytest.MonkeyPatch) -> list[RadioConditions]:
    """The radios of the simulations that commands begin.

    The simulations do nothing else.
    """
    begun: list[RadioConditions] = []

    def pass_weeks(settings: Settings, dsn: str, garage: Garage, progress: Any) -> ScenarioSummary:
        begun.append(garage.radio)
        return ScenarioSummary(1, None, opens_uncertain=False)

    async def simulate(access: Any, options: SimulatorOptions, *rest: Any) -> SimulationSummary:
        begun.append(options.radio)
        return SimulationSummary()

    monkeypatch.setattr(simulate_keys, "_thrown_away", no_database)
    monkeypatch.setattr(offline, "pass_weeks", pass_weeks)
    monkeypatch.setattr(simulator, "simulate", simulate)
    for name, value in ACCESS.items():
        monkeypatch.setenv(name, value)
    return begun


@pytest.mark.parametrize("command", ["simulate", "simulate-keys"])
def test_the_radio_has_the_given_faults(command: str, conditions: list[RadioConditions]) -> None:
    assert [run(command), run(command, "--radio", NONE), run(command, "--radio", BAD)] == [0, 0, 0]
    usual, none, bad = conditions
    assert usual == GARAGE
    assert none == RadioConditions(GARAGE.att_mtus, longest_delay=0)
    assert bad == RadioConditions(GARAGE.att_mtus, 30, 0.2, 0.1, 0.15, 4_000, 0.05)
    assert PERFECT.losses == PERFECT.disconnects == PERFECT.delays == PERFECT.busy == 0


@pytest.mark.parametrize("command", ["simulate", "simulate-keys"])
@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("busy=0.3", "'0.3' is not a value of busy; valid: 0 to 0.2, as in losses=0.05,busy=0"),
        ("losses=0.1,losses=-0.1", "'-0.1' is not a value of losses"),
        ("delay=4901", "'4901' is not a value of delay; valid: 0 to 4900"),
        ("losses=nan", "'nan' is not a value of losses"),
        ("losses", "'' is not a value of losses"),
        ("fire=0.1", "'fire' is not a fault of the radio; valid: losses, disconnects, delays, busy, delay"),
    ],
)
def test_faults_that_let_no_phone_through_are_rejected(
    command: str, faults: str, message: str, conditions: list[RadioConditions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, "--radio", faults) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert conditions == []


@pytest.mark.parametrize("command", ["simulate", "simulate-keys"])
def test_help_and_page_have_the_defaults(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(command, "--help")
    shown = " ".join(capsys.readouterr().out.split())
    page = PAGE.read_text()
    assert f"Default: {', '.join(f'{name}={value}' for name, value in DEFAULTS.items())}." in shown
    for name, value in DEFAULTS.items():
        assert f"| `{name}` | {value} |" in page
    assert radio_options.LONGEST_DELAY == radio.MOST_DELAY
