"""In charge of what each member of telemetry means, with a value as an example.

The spec names no units of measure: values are kept and shown as the unit tells them, and the words here say what is
meant, not in which unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READINGS: Mapping[str, tuple[str, Any]] = {
    "selectedCulture": ("The language and region that the unit is set to.", "en-GB"),
    "deviceSerialNumber": ("The serial number of the unit that told it.", "IQ-1"),
    "serialNumber": ("The serial number of the unit; either this or `uniqueId` is needed.", "IQ-1"),
    "uniqueId": ("The unit's unique id, in place of `serialNumber`.", "A4C1380F21D8"),
    "vin": ("The vehicle identification number that the car told the unit.", "WVWZZZ1KZ6W000001"),
    "odometer": ("What the odometer shows; 0 until it was told.", 48210.5),
    "rpm": ("The engine's revolutions a minute; 0 until they were told.", 2100),
    "dtc": ("The diagnostic trouble codes that are set.", [{"key": "P0420", "value": "Catalyst efficiency"}]),
    "key": ("The code, as P0420.", "P0420"),
    "value": ("What it means.", "Catalyst efficiency"),
    "isDriving": ("Whether the car is being driven; false until it was told.", True),
    "carDataReadTime": ("When the unit read the values.", "2026-05-01T10:00:10Z"),
    "isHybrid": ("Whether the car has a combustion engine and an electric one.", False),
    "chargeState": ("Whether the car is being charged.", False),
    "ignition": ("Whether the ignition is on.", True),
    "driverSeatbelt": ("Whether the driver's belt is fastened.", True),
    "isTractionControlActive": ("Whether traction control is working.", False),
    "isCruiseControlActive": ("Whether cruise control holds the speed.", False),
    "isCruiseControlEnabled": ("Whether cruise control is switched on.", False),
    "isParkingBrakeEngaged": ("Whether the parking brake is on.", False),
    "isLeftTurnSignalActive": ("Whether the left indicator flashes.", False),
    "isRightTurnSignalActive": ("Whether the right indicator flashes.", False),
    "fuelType": ("What the car runs on.", "Diesel"),
    "timeToNextService": ("The time until the next inspection.", "120 days"),
    "currentLongitude": ("Where the car is, in degrees to the east of Greenwich, WGS 84.", 13.405),
    "currentLatitude": ("Where the car is, in degrees to the north of the equator, WGS 84.", 52.52),
    "fuelConsumption": ("How much fuel the car uses.", 6.4),
    "totalFuelUsed": ("The fuel that it has used in all.", 3120.5),
    "fuelLevelVolume": ("The fuel in the tank, as a volume.", 31.5),
    "fuelLevelPercent": ("The fuel in the tank, in percent.", 63.0),
    "engineHours": ("The hours that the engine has run.", 1210.5),
    "distanceToNextService": ("The distance until the next inspection; negative if that is overdue.", 8200.0),
    "adBlueLevel": ("The AdBlue that is left.", 12.5),
    "fuelFilterLifeRemaining": ("What is left of the fuel filter, in percent.", 80.0),
    "oilLevel": ("The engine's oil.", 4.5),
    "oilTemperature": ("The temperature of the engine's oil.", 92.0),
    "oilLifeRemaining": ("What is left of the oil's life, in percent.", 71.0),
    "transmissionOilTemperature": ("The temperature of the transmission's oil.", 85.0),
    "engineTemperature": ("The temperature of the engine.", 91.0),
    "engineCoolantTemperature": ("The temperature of the coolant.", 90.0),
    "batteryVoltage": ("The voltage of the car's battery.", 12.6),
    "currentSpeed": ("How fast the car is.", 48.5),
    "tirePressureFrontLeft": ("The pressure of the front left tyre.", 2.4),
    "tirePressureFrontRight": ("The pressure of the front right tyre.", 2.4),
    "tirePressureRearLeft": ("The pressure of the rear left tyre.", 2.3),
    "tirePressureRearRight": ("The pressure of the rear right tyre.", 2.3),
    "interiorTemperature": ("The temperature inside the car.", 21.5),
    "outsideTemperature": ("The temperature outside the car.", 14.0),
    "frontBrakeLifeRemaining": ("What is left of the front brakes, in percent.", 66.0),
    "rearBrakeLifeRemaining": ("What is left of the rear brakes, in percent.", 74.0),
}
