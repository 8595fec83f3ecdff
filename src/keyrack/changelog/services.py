"""The parts of the process that the handlers of changes and live updates need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.event_stream import EventHub
from keyrack.api.services import ReadServices
from keyrack.changelog.feed_stream import FeedService


class FeedServices(ReadServices, Protocol):
    """The feed of changes, which subscribers share."""

    @property
    def feed(self) -> FeedService: ...


class LiveServices(ReadServices, Protocol):
    """The hub of live updates."""

    @property
    def event_hub(self) -> EventHub: ...
