"""The console's words, each with the word of the API."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.core.text import N_


@dataclass(frozen=True, slots=True)
class ConsoleWord:
    """A word of the console. `api` is the API's word, in English in every language."""

    label: str
    api: str
    description: str


# In the order of Help
WORDS = (
    ConsoleWord(
        N_("Booking"), "Assignment", N_("The right of a person to open a car, from a start to an end or without end.")
    ),
    ConsoleWord(N_("Person"), "User", N_("A person who can get keys to cars.")),
    ConsoleWord(N_("Account"), "Manager", N_("The access of a person to the console, with a role for each customer.")),
    ConsoleWord(
        N_("Key box"),
        "Product",
        N_("The device in the car that holds its key and opens the car for people with a booking."),
    ),
    ConsoleWord(N_("Tracker"), "Product", N_("The device in the car that reports its position and telemetry.")),
    ConsoleWord(
        N_("Service"),
        "Service",
        N_("The subscription for a key box, with a contract that ends. A key box without a service opens nothing."),
    ),
    ConsoleWord(N_("Put in"), "Install", N_("Record that a key box or a tracker is built into a car.")),
    ConsoleWord(N_("Take out"), "Uninstall", N_("Record that a key box or a tracker is taken out of its car.")),
    ConsoleWord(
        N_("Key"),
        "Key",
        N_(
            "The signed data with which a phone opens an enrolled key box without a network: for one booking, and for"
            " some days at most. The app gets it by itself."
        ),
    ),
    ConsoleWord(N_("Key valid offline for"), "lifetime", N_("How long a phone can use a key without renewing it.")),
    ConsoleWord(N_("Renew after"), "renewableAfter", N_("When the phone may renew a key.")),
    ConsoleWord(N_("Request"), "Operation", N_("A request to add, change or end a booking, with its result.")),
    ConsoleWord(N_("Being processed"), "Pending", N_("The state of a request without a result yet.")),
    ConsoleWord(N_("Done"), "Succeeded", N_("The state of a request that was carried out.")),
    ConsoleWord(N_("Opening"), "Event", N_("An entry for each time that a car was opened or closed, with the person.")),
    ConsoleWord(N_("History of changes"), "Change", N_("All changes, with their time and author.")),
    ConsoleWord(
        N_("Webhook"), "Webhook", N_("An address of another program that receives the results of booking requests.")
    ),
    ConsoleWord(N_("Sends"), "kinds", N_("The event types that a webhook receives.")),
    ConsoleWord(
        N_("Failed notification"), "Dead", N_("The state of a delivery that a webhook did not accept in any attempt.")
    ),
    ConsoleWord(N_("Send again"), "Replay", N_("Send a delivery to its webhook once more.")),
    ConsoleWord(
        N_("Delete personal data"), "Erasure", N_("Remove a person from the records of this customer as well.")
    ),
)
