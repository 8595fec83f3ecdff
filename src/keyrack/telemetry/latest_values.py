"""In charge of newest values: of each member the one that was read last, each with its own time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyrack.telemetry.samples import Json


@dataclass(slots=True)
class LatestValues:
    """Values by their members' names: those that were told at `read_at`, and others, whose times are in `told`."""

    read_at: datetime | None = None
    values: Json = field(default_factory=dict[str, Any])
    told: dict[str, str] = field(default_factory=dict[str, str])  # of values older than `read_at`: since when

    def tell(self, at: datetime, values: Mapping[str, Any]) -> bool:
        """Take over each value that is newer than the one known by its name; of two of the same time the first one.

        Whether there was one.
        """
        last = self.read_at
        if last is None or at > last:
            if last is not None and self.values.keys() != values.keys():
                since = last.isoformat()
                for name in self.values.keys() - values.keys():
                    self.told.setdefault(name, since)
            self.values.update(values)
            if self.told:
                self.told = {name: since for name, since in self.told.items() if name not in values}
            self.read_at = at
            return True
        taken = False
        for name, value in values.items():
            since = self.told.get(name)
            if name in self.values and (since is None or datetime.fromisoformat(since) >= at):
                continue
            self.values[name] = value
            if at == last:
                self.told.pop(name, None)
            else:
                self.told[name] = at.isoformat()
            taken = True
        return taken

    def by_time(self) -> dict[datetime, Json]:
        """The values by the times at which they were told."""
        if self.read_at is None:
            return {}
        values_by_time = {self.read_at: {name: value for name, value in self.values.items() if name not in self.told}}
        for name, since in self.told.items():
            values_by_time.setdefault(datetime.fromisoformat(since), {})[name] = self.values[name]
        return values_by_time
