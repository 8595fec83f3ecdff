"""The one message and reply of a box."""

from __future__ import annotations

from enum import Enum, auto

SHARED_MS = 3_000  # from its first byte on, a message and its reply have the buffer, even if another link waits
REPLY_SHARED_MS = 500  # the same for the reply, from the first refusal of another link on
WAIT_MS = 700  # for which a link that was refused waits for its turn; a phone asks again after 500 ms at most


class Phase(Enum):
    FREE = auto()
    RECEIVING = auto()
    PROCESSING = auto()
    SENDING = auto()


class MessageBuffer:
    """The buffer of a box, and the link that owns it. Times are in milliseconds.

    The link that begins a message owns the buffer until its reply is sent. Links that were refused get the buffer in
    their order. A link that is slow to send its message, or to take its reply, loses the buffer to the next one. So
    no stranger shuts out phones by messages without an end, or by many. While the box processes a message, the buffer
    stays in use, even if the link ends: the firmware still reads it.
    """

    def __init__(self) -> None:
        self.owner = 0  # the link, unless the buffer is free
        self.phase = Phase.FREE
        self._began = 0
        self._is_abandoned = False
        self._reply = b""
        self._contested_at: int | None = None  # the first refusal of another link since the reply began
        self._waiting: dict[int, int] = {}  # links in the order of their turns, and until when each one waits

    def claim(self, link: int, now: int) -> bool:
        """Whether this link may begin a message now.

        If not, the link waits for its turn.
        """
        self._waiting = {each: until for each, until in self._waiting.items() if now <= until}
        is_next = next(iter(self._waiting), link) == link
        if is_next and (self.phase is Phase.FREE or (self.owner != link and self._is_slow(now))):
            self._waiting.pop(link, None)
            return True
        self._waiting[link] = now + WAIT_MS
        if self.phase is Phase.SENDING and self.owner != link and self._contested_at is None:
            self._contested_at = now
        return False

    def _is_slow(self, now: int) -> bool:
        """Whether the owner has had the buffer for long enough."""
        if self.phase is Phase.SENDING and (self._contested_at is None or now - self._contested_at <= REPLY_SHARED_MS):
            return False
        return self.phase is not Phase.PROCESSING and now - self._began > SHARED_MS

    def begin(self, link: int, now: int) -> None:
        """Own the buffer, to receive a message. `claim` has said that this is possible."""
        self.owner, self.phase, self._began, self._is_abandoned = link, Phase.RECEIVING, now, False

    def is_of(self, link: int, phase: Phase) -> bool:
        """Whether this link owns the buffer in this phase."""
        return self.phase is phase and self.owner == link and not self._is_abandoned

    def complete(self) -> None:
        """The message is whole, and the firmware processes it."""
        self.phase = Phase.PROCESSING

    def reply(self, link: int, message: bytes) -> bool:
        """Begin to send the reply, which ends the processing. False if this link does not wait for it any more."""
        is_wanted = self.is_of(link, Phase.PROCESSING)
        if self.phase is Phase.PROCESSING:
            self.phase, self._reply = (Phase.SENDING, message) if is_wanted else (Phase.FREE, b"")
            self._contested_at = None
        return is_wanted

    @property
    def rest(self) -> bytes:
        """The part that is not sent yet."""
        return self._reply

    def take(self, size: int) -> bytes:
        """The next bytes of the reply. After the last the buffer is free."""
        part, self._reply = self._reply[:size], self._reply[size:]
        if not self._reply:
            self.phase = Phase.FREE
        return part

    def abandon(self, link: int) -> None:
        """Drop message and reply of this link."""
        if self.phase is Phase.FREE or self.owner != link:
            return
        if self.phase is Phase.PROCESSING:
            self._is_abandoned = True
        else:
            self.phase, self._reply = Phase.FREE, b""

    def leave(self, link: int) -> None:
        """This link has ended: drop its message, its reply and its turn."""
        self._waiting.pop(link, None)
        self.abandon(link)
