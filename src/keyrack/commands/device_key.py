"""Device keys: with one, a customer's units and boxes, or whoever forwards their data, deliver telemetry and events."""

from keyrack.commands.customer_key import commands

app = commands("device_key", "deviceKey", "device key")
