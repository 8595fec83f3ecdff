"""A model of the access history: random changes with given times, and a simple answer to who could open."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

# Within the longest retention: the housekeeping of a running server deletes older history
BEGINS = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2_500)
FOREVER = datetime.max.replace(tzinfo=UTC)
# Between two changes, between a change and its number, and from a change to an assignment's start and end
STEPS = [timedelta(milliseconds=3), timedelta(seconds=20), timedelta(hours=5), timedelta(days=3), timedelta(days=90)]
LAGS = [timedelta(0), timedelta(milliseconds=40), timedelta(hours=2)]
STARTS = [timedelta(days=-10), timedelta(0), timedelta(seconds=30), timedelta(hours=9), timedelta(days=200)]
LONG = [timedelta(0), timedelta(seconds=1), timedelta(hours=2), timedelta(days=40), timedelta(days=2_000)]

Told = tuple[int, int, int, int | None, int | None]  # assignment, car, user, box, service


@dataclass
class Was:
    """The state of a resource after one change; the values are None if it did not exist."""

    at: datetime
    recorded: datetime
    values: Any


@dataclass
class History:
    """Changes as in the outbox, in batches that get their numbers together, and the states that result."""

    customer: int
    cars: Sequence[int]
    users: Sequence[int]
    chance: random.Random
    assignments: dict[int, list[Was]] = field(default_factory=dict)
    places: dict[tuple[str, int], list[Was]] = field(default_factory=dict)  # kind, part -> its places
    time: datetime = BEGINS
    recorded: datetime = BEGINS

    def pieces(self, changes: int) -> Iterator[tuple[list[dict[str, Any]], datetime]]:
        """Rows of the outbox, and their recording time."""
        while changes > 0:
            count = self.chance.choice((1, 1, 2, 5, 20))
            rows, made = [], list[Was]()
            for _ in range(count):
                self.time += self.chance.choice(STEPS) * self.chance.random()
                rows.append(self._change(made))
            self.recorded = max(self.recorded, self.time + self.chance.choice(LAGS))
            for was in made:
                was.recorded = self.recorded
            changes -= count
            yield rows, self.recorded

    # The changes

    def _change(self, made: list[Was]) -> dict[str, Any]:
        there = [id for id, was in self.assignments.items() if was[-1].values is not None]
        do = self.chance.choice(("create", "create", "patch", "patch", "delete", "box", "box", "service"))
        if do == "box":
            return self._placed(made, "product", "box", self.chance.choice((901, 902)), "carId", self.cars)
        if do == "service":
            return self._placed(made, "service", "service", self.chance.choice((801, 802)), "productId", (901, 902))
        if do == "create" or not there:
            return self._create(made)
        return self._delete(made, self.chance.choice(there)) if do == "delete" else self._patch(made, there)

    def _row(self, kind: str, id: int, after: Any) -> dict[str, Any]:
        told = None if after is None else json.dumps(after)
        return {
            "customer_id": self.customer, "at": self.time, "kind": kind, "resource": kind.partition(".")[0],
            "resource_id": str(id), "after": told,
        }  # fmt: skip

    def _was(self, made: list[Was], histories: dict[Any, list[Was]], key: Any, values: Any) -> None:
        was = Was(self.time, self.time, values)
        made.append(was)
        histories.setdefault(key, []).append(was)

    def _create(self, made: list[Was]) -> dict[str, Any]:
        id = 1_000 + len(self.assignments)
        values = self._values()
        self._was(made, self.assignments, id, values)
        return self._row("assignment.created", id, {name: one for name, one in values.items() if one is not None})

    def _patch(self, made: list[Was], there: Sequence[int]) -> dict[str, Any]:
        id = self.chance.choice(there)
        before, new = self.assignments[id][-1].values, self._values()
        named = self.chance.sample(("carId", "userId", "start", "end"), self.chance.choice((0, 1, 1, 2)))
        changes = {name: new[name] for name in named if new[name] != before[name]}
        if named:
            self._was(made, self.assignments, id, {**before, **changes})
        return self._row("assignment.updated", id, changes or {"lifetime": 700_000})

    def _delete(self, made: list[Was], id: int) -> dict[str, Any]:
        self._was(made, self.assignments, id, None)
        return self._row("assignment.deleted", id, None)

    def _values(self) -> dict[str, Any]:
        start = self.time + self.chance.choice(STARTS)
        end = None if self.chance.random() < 0.4 else (start + self.chance.choice(LONG)).isoformat()
        return {
            "carId": self.chance.choice(self.cars), "userId": self.chance.choice(self.users),
            "start": start.isoformat(), "end": end,
        }  # fmt: skip

    def _placed(
        self, made: list[Was], resource: str, kind: str, part: int, member: str, places: Sequence[int]
    ) -> dict[str, Any]:
        """Install, remove, move, create or delete a part; its new place is free."""
        key, taken = (kind, part), {was[-1].values for (of, _), was in self.places.items() if of == kind}
        before = self.places[key][-1].values if key in self.places else None
        free = [place for place in places if place not in taken]
        place = self.chance.choice(free) if free and self.chance.random() < 0.7 else None
        seldom = "deleted" if place is None else "created" if before is None else "put"
        word = self.chance.choice(("put", "put", seldom))
        if place == before or (before is None and word == "deleted"):
            return self._row(f"{resource}.updated", part, {"name": "nothing of it is told"})
        self._was(made, self.places, key, place)
        if word == "deleted":
            return self._row(f"{resource}.deleted", part, None)
        if word == "created":
            return self._row(f"{resource}.created", part, {"type": "Box", member: place})
        words = {"box": ("installed", "uninstalled"), "service": ("paired", "unpaired")}[kind]
        if before is not None and place is not None:
            return self._row(f"{resource}.updated", part, {member: place})
        prefix = "box" if kind == "box" else "service"
        row = self._row(f"{prefix}.{words[place is None]}", part, {member: place})
        return row | {"resource": resource}

    # The expected answers

    def times(self) -> list[datetime]:
        """The times at which a state may begin or end."""
        found = {BEGINS}
        for was in (one for history in (*self.assignments.values(), *self.places.values()) for one in history):
            found |= {was.at, was.recorded}
            if isinstance(was.values, dict):
                found |= {datetime.fromisoformat(text) for text in (was.values["start"], was.values["end"]) if text}
        return sorted(found)

    def told(self, thing: str, id: int, at: datetime) -> set[Told]:
        """The expected periods of a car or a user: all that were in force then, by anything that could be known."""
        found: set[Told] = set()
        for assignment, history in self.assignments.items():
            for was, until in _known(history):
                values = was.values
                if values is None or values[f"{thing}Id"] != id or not was.at <= at < until:
                    continue
                end = FOREVER if values["end"] is None else datetime.fromisoformat(values["end"])
                if datetime.fromisoformat(values["start"]) <= at < end:
                    box = self._part("box", values["carId"], at)
                    service = None if box is None else self._part("service", box, at)
                    found.add((assignment, values["carId"], values["userId"], box, service))
        return found

    def _part(self, kind: str, place: int, at: datetime) -> int | None:
        """The part that was put there last, if it was still there."""
        put = [
            (was.at, until, part)
            for (of, part), history in self.places.items()
            for was, until in _known(history)
            if of == kind and was.values == place and was.at <= at
        ]
        _, until, part = max(put, default=(at, at, None), key=lambda one: one[0])
        return part if at < until else None


def _known(history: Sequence[Was]) -> Iterator[tuple[Was, datetime]]:
    """Each state with the end of its transaction time."""
    for was, following in zip(history, [*history[1:], None], strict=True):
        yield was, FOREVER if following is None else following.recorded
