"""SDK keys: with one, a customer's app gets tokens for its users."""

from keyrack.commands.customer_key import commands

app = commands("sdk_key", "sdkKey", "SDK key")
