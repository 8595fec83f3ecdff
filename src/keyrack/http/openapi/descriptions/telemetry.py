"""The description of each property of telemetry, with an example.

The spec has no units of measure: values are stored and returned as the unit sent them. So the descriptions state the
quantity and not its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READINGS: Mapping[str, tuple[str, Any]] = {
    "selectedCulture": ("The language and region of the unit.", "en-GB"),
    "deviceSerialNumber": ("The serial number of the unit that sent the reading.", "IQ-1"),
    "serialNumber": ("The serial number of the unit. Either this or `uniqueId` is required.", "IQ-1"),
    "uniqueId": ("The unique id of the unit, instead of `serialNumber`.", "A4C1380F21D8"),
    "vin": ("The vehicle identification number that the car reported to the unit.", "WVWZZZ1KZ6W000001"),
    "odometer": ("The odometer reading; 0 until one was sent.", 48210.5),
    "rpm": ("The engine speed in revolutions per minute; 0 until one was sent.", 2100),
    "dtc": ("The active diagnostic trouble codes.", [{"key": "P0420", "value": "Catalyst efficiency"}]),
    "key": ("The code, such as P0420.", "P0420"),
    "value": ("The description of the code.", "Catalyst efficiency"),
    "isDriving": ("Whether the car is being driven; false until a value was sent.", True),
    "carDataReadTime": ("When the unit read the values.", "2026-05-01T10:00:10Z"),
    "isHybrid": ("Whether the car has a combustion engine and an electric one.", False),
    "chargeState": ("Whether the car is being charged.", False),
    "ignition": ("Whether the ignition is on.", True),
    "driverSeatbelt": ("Whether the driver's belt is fastened.", True),
    "isTractionControlActive": ("Whether traction control is active.", False),
    "isCruiseControlActive": ("Whether cruise control controls the speed.", False),
    "isCruiseControlEnabled": ("Whether cruise control is switched on.", False),
    "isParkingBrakeEngaged": ("Whether the parking brake is on.", False),
    "isLeftTurnSignalActive": ("Whether the left turn signal is flashing.", False),
    "isRightTurnSignalActive": ("Whether the right turn signal is flashing.", False),
    "fuelType": ("The type of fuel.", "Diesel"),
    "timeToNextService": ("The time until the next inspection.", "120 days"),
    "currentLongitude": ("The longitude of the car in degrees east, WGS 84.", 13.405),
    "currentLatitude": ("The latitude of the car in degrees north, WGS 84.", 52.52),
    "fuelConsumption": ("The fuel consumption.", 6.4),
    "totalFuelUsed": ("The total fuel used.", 3120.5),
    "fuelLevelVolume": ("The fuel level as a volume.", 31.5),
    "fuelLevelPercent": ("The fuel level in percent.", 63.0),
    "engineHours": ("The operating hours of the engine.", 1210.5),
    "distanceToNextService": ("The distance until the next inspection; negative if it is overdue.", 8200.0),
    "adBlueLevel": ("The AdBlue level.", 12.5),
    "fuelFilterLifeRemaining": ("The remaining life of the fuel filter in percent.", 80.0),
    "oilLevel": ("The engine oil level.", 4.5),
    "oilTemperature": ("The temperature of the engine oil.", 92.0),
    "oilLifeRemaining": ("The remaining life of the engine oil in percent.", 71.0),
    "transmissionOilTemperature": ("The temperature of the transmission oil.", 85.0),
    "engineTemperature": ("The temperature of the engine.", 91.0),
    "engineCoolantTemperature": ("The temperature of the coolant.", 90.0),
    "batteryVoltage": ("The voltage of the car's battery.", 12.6),
    "currentSpeed": ("The speed of the car.", 48.5),
    "tirePressureFrontLeft": ("The pressure of the front left tyre.", 2.4),
    "tirePressureFrontRight": ("The pressure of the front right tyre.", 2.4),
    "tirePressureRearLeft": ("The pressure of the rear left tyre.", 2.3),
    "tirePressureRearRight": ("The pressure of the rear right tyre.", 2.3),
    "interiorTemperature": ("The temperature inside the car.", 21.5),
    "outsideTemperature": ("The temperature outside the car.", 14.0),
    "frontBrakeLifeRemaining": ("The remaining life of the front brakes in percent.", 66.0),
    "rearBrakeLifeRemaining": ("The remaining life of the rear brakes in percent.", 74.0),
}
