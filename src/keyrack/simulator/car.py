"""A virtual car: its route, its speed and the readings of its unit. It does not know the server."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

METERS_PER_DEGREE = 111_320
RADIUS = 15_000  # meters from home at which the driver turns back


@dataclass(slots=True)
class VirtualCar:
    """A car with its position and mechanics. All choices come from `random`, so that a seed repeats them."""

    random: Random
    latitude: float
    longitude: float
    odometer: float  # km
    is_electric: bool = False
    speed: float = 0.0  # km/h
    heading: float = 0.0  # radians, clockwise from north
    target: float = 0.0  # km/h, the speed that the driver wants
    level: float = 80.0  # percent of fuel or charge
    temperature: float = 20.0  # °C of the coolant
    is_driving: bool = False
    home: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        self.home = (self.latitude, self.longitude)
        self.heading = self.random.uniform(0, 2 * math.pi)
        self.level = self.random.uniform(40, 95)

    def start(self) -> None:
        self.is_driving = True
        self.target = self.random.choice((30, 50, 50, 70, 100))

    def stop(self) -> None:
        self.is_driving, self.speed = False, 0.0

    def move(self, seconds: float) -> None:
        """Advance the car by some seconds."""
        if not self.is_driving:
            self.temperature += (20 - self.temperature) * min(1, seconds / 3600)
            if self.is_electric:
                self.level = min(100.0, self.level + seconds / 120)
            elif self.level < 15:
                self.level = 95.0  # refuelled
            return
        if self.random.random() < 0.15:
            self.target = self.random.choice((0, 30, 50, 50, 70, 100, 130))
        change = max(-12.0 * seconds, min(6.0 * seconds, self.target - self.speed))
        self.speed = max(0.0, self.speed + change)
        self._turn()
        way = self.speed / 3.6 * seconds  # meters
        self.latitude += way * math.cos(self.heading) / METERS_PER_DEGREE
        self.longitude += way * math.sin(self.heading) / (METERS_PER_DEGREE * math.cos(math.radians(self.latitude)))
        self.odometer += way / 1000
        self.level = max(3.0, self.level - way / 1000 * (0.25 if self.is_electric else 0.12))
        self.temperature += (90 - self.temperature) * min(1, seconds / 300)

    def _turn(self) -> None:
        """Change the heading: a little all the time, and sometimes at a crossing."""
        if self.speed < 40 and self.random.random() < 0.2:
            self.heading += self.random.choice((-math.pi / 2, math.pi / 2))
        self.heading += self.random.gauss(0, 0.08)
        north = (self.home[0] - self.latitude) * METERS_PER_DEGREE
        east = (self.home[1] - self.longitude) * METERS_PER_DEGREE * math.cos(math.radians(self.latitude))
        if math.hypot(north, east) > RADIUS:
            self.heading = math.atan2(east, north) + self.random.gauss(0, 0.3)

    def reading(self, at: datetime) -> dict[str, Any]:
        """The current reading of the car's unit."""
        values: dict[str, Any] = {
            "carDataReadTime": stamp(at),
            "currentLatitude": round(self.latitude, 6),
            "currentLongitude": round(self.longitude, 6),
            "odometer": round(self.odometer, 3),
            "currentSpeed": round(self.speed, 1),
            "isDriving": self.is_driving,
            "ignition": self.is_driving,
            "rpm": round(800 + self.speed * 25) if self.is_driving and not self.is_electric else 0,
            "batteryVoltage": round((13.9 if self.is_driving else 12.4) + self.random.uniform(0, 0.4), 1),
            "engineCoolantTemperature": round(self.temperature, 1),
            "outsideTemperature": 17.5,
            "isParkingBrakeEngaged": not self.is_driving,
            "fuelLevelPercent": round(self.level, 1),
        }
        if self.is_electric:
            return values | {"fuelType": "Electric", "chargeState": not self.is_driving}
        return values | {"fuelType": "Diesel"}


def stamp(at: datetime) -> str:
    """A time in the format of the API."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def stamp_of(seconds: int) -> str:
    """A time in seconds since 1970, in the format of the API."""
    return stamp(datetime.fromtimestamp(seconds, UTC))
