"""The newest value of each telemetry member, with its own time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyrack.telemetry.samples import Json


@dataclass(slots=True)
class LatestValues:
    """Values by member: those read at `read_at`, and others with times in `older_times`."""

    read_at: datetime | None = None
    values: Json = field(default_factory=dict[str, Any])
    older_times: dict[str, str] = field(default_factory=dict[str, str])  # times of values older than `read_at`

    def merge(self, at: datetime, values: Mapping[str, Any]) -> bool:
        """Keep each value that is newer than the known one of its member; for equal times the first one.

        Returns whether there was one.
        """
        last = self.read_at
        if last is None or at > last:
            if last is not None and self.values.keys() != values.keys():
                since = last.isoformat()
                for name in self.values.keys() - values.keys():
                    self.older_times.setdefault(name, since)
            self.values.update(values)
            if self.older_times:
                self.older_times = {name: since for name, since in self.older_times.items() if name not in values}
            self.read_at = at
            return True
        has_changed = False
        for name, value in values.items():
            since = self.older_times.get(name)
            if name in self.values and (since is None or datetime.fromisoformat(since) >= at):
                continue
            self.values[name] = value
            if at == last:
                self.older_times.pop(name, None)
            else:
                self.older_times[name] = at.isoformat()
            has_changed = True
        return has_changed

    def by_time(self) -> dict[datetime, Json]:
        """The values, grouped by the times of their readings."""
        if self.read_at is None:
            return {}
        values_by_time = {
            self.read_at: {name: value for name, value in self.values.items() if name not in self.older_times}
        }
        for name, since in self.older_times.items():
            values_by_time.setdefault(datetime.fromisoformat(since), {})[name] = self.values[name]
        return values_by_time
