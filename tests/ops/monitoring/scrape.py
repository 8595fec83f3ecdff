"""Scrapes, parsed by Prometheus' library."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.log_lines import log_events
from tests.support.people import web
from tests.support.servers import DEADLINE, eventually


@dataclass(frozen=True)
class Scrape:
    """One scrape: its samples by name."""

    kinds: dict[str, str]  # family -> kind
    samples: dict[str, list[tuple[dict[str, str], float]]]

    def of(self, name: str, **labels: str) -> list[float]:
        """The values of the series with these labels."""
        found = self.samples.get(name, [])
        return [value for has, value in found if all(has.get(key) == want for key, want in labels.items())]

    def sum(self, name: str, **labels: str) -> float:
        return sum(self.of(name, **labels))

    def one(self, name: str, **labels: str) -> float:
        (value,) = self.of(name, **labels)
        return value


def parsed(text: str) -> Scrape:
    kinds: dict[str, str] = {}
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        kinds[family.name + ("_total" if family.type == "counter" else "")] = family.type
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return Scrape(kinds, samples)


@dataclass
class Port:
    """The metrics endpoint of a process."""

    number: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.number}/metrics"

    def scrape(self) -> Scrape:
        answer = web().get(self.url)
        assert answer.status_code == 200, answer.text
        return parsed(answer.text)


def shown(log: Path) -> Port:
    """The metrics port of a process, from its log."""

    def address() -> str | None:
        return next((line["address"] for line in log_events(log, "metrics endpoint started")), None)

    return Port(int(eventually(address, "the port of the metrics").rpartition(":")[2]))


def ran(*command: str) -> str:
    """Run a program that must succeed, and return its output."""
    found = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
