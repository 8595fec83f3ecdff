"""The one message and reply of a box."""

from __future__ import annotations

from enum import Enum, auto

SHARED_MS = 3_000  # after which another link may take the buffer from one that receives a message


class Phase(Enum):
    FREE = auto()
    RECEIVING = auto()
    PROCESSING = auto()
    SENDING = auto()


class MessageBuffer:
    """The buffer of a box, and the link that owns it. Times are in milliseconds.

    The link that begins a message owns the buffer until its reply is sent. A link that is slow to send its message
    loses the buffer to the next one that begins: no stranger shuts out phones by a message without an end. While the
    box processes a message, the buffer stays in use, even if the link ends: the firmware still reads it.
    """

    def __init__(self) -> None:
        self.owner = 0  # the link, unless the buffer is free
        self.phase = Phase.FREE
        self._began = 0
        self._is_abandoned = False
        self._reply = b""

    def has_room(self, link: int, now: int) -> bool:
        """Whether this link may begin a message.

        The buffer is free, or its owner is slow to send a message.
        """
        is_slow = self.phase is Phase.RECEIVING and self.owner != link and now - self._began > SHARED_MS
        return is_slow or self.phase is Phase.FREE

    def begin(self, link: int, now: int) -> None:
        """Own the buffer, to receive a message. `has_room` has said that this is possible."""
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
