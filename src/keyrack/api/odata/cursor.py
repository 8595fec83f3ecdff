"""The cursor in a text: its position and nesting, and errors with the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from keyrack.api.odata import syntax_hints, tokens
from keyrack.api.odata.ast import UnsupportedNode
from keyrack.core import errors
from keyrack.core.error_codes import ErrorCode, FieldError

INVALID = ErrorCode(
    "invalid-query",
    "The query specified in the URI is not valid. {fault}",
    "Correct the query as the message says; docs/odata.md describes the options.",
)
NOT_SUPPORTED = ErrorCode(
    "query-not-supported",
    "{feature} is not supported.",
    "Leave out the unsupported part; docs/odata.md lists the supported options.",
)
BLANKS = " \t"  # white space of the grammar (ABNF: BWS, RWS)
LONGEST_MESSAGE = 500  # characters; it may quote a path of any length
_BLANK = tuple(BLANKS)
NESTING = 50  # default maximum of levels


class Cursor:
    """Reads the `text` of one option; `option` names it in messages.

    Unsupported syntax is recorded and read on, and rejected at the end. So malformed text is 400 wherever it is.
    """

    __slots__ = ("at", "depth", "nesting", "option", "text", "unsupported")

    def __init__(self, option: str, text: str, nesting: int = NESTING) -> None:
        self.option = option  # its name, or an alias with its @
        self.text = text
        self.nesting = nesting
        self.at: int = 0
        self.depth: int = 0
        self.unsupported: str | None = None

    def fail(
        self,
        message: str,
        at: int | None = None,
        *,
        hint: str | None = None,
        code: str = "syntax",
        valid: Sequence[str] = (),
    ) -> NoReturn:
        """Raise `BadRequest` with the position, in characters from 0. `hint` is a sentence with the valid form."""
        position = self.at if at is None else at
        sentence = message[:LONGEST_MESSAGE] + "."
        if hint is None:
            hint = syntax_hints.hint(self.text, position)
        if hint:
            sentence += f" {hint}"
        fault = FieldError(
            code,
            sentence[:1].upper() + sentence[1:],
            parameter=self._parameter,
            position=position,
            valid=tuple(valid),
        )
        text = f"Syntax error at position {position} of {self._parameter}: {sentence}"
        raise errors.BadRequest(INVALID.format(fault=text), errors=[fault])

    def refuse_later(self, what: str) -> UnsupportedNode:
        """Record that `what` is not supported (a sentence without its end)."""
        self.unsupported = self.unsupported or what
        return UnsupportedNode(self.at)

    def finish(self) -> None:
        """Raise `BadRequest` unless the whole text is read, `NotImplemented` if unsupported syntax was recorded."""
        if self.at != len(self.text):
            end, start = len(self.text.rstrip(BLANKS)), self.at
            if start < end:
                self.fail("an operator or the end was expected")
        if self.unsupported is not None:
            reason = NOT_SUPPORTED.format(feature=self.unsupported[:LONGEST_MESSAGE])
            raise errors.NotImplemented(
                reason, errors=[FieldError("not-supported", reason.text, parameter=self._parameter)]
            )

    @property
    def _parameter(self) -> str:
        """The query option or alias in errors."""
        return self.option if self.option.startswith("@") else f"${self.option}"

    def enter(self) -> None:
        """Enter a nested level. Raises `BadRequest` above the limit."""
        self.depth += 1
        if self.depth > self.nesting:
            self.too_deep()

    def too_deep(self) -> NoReturn:
        self.fail(f"the expression is nested deeper than the limit of {self.nesting} levels")

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def blanks(self) -> None:
        """Skip optional white space (ABNF: BWS)."""
        while self.text.startswith(_BLANK, self.at):
            self.at += 1

    def expect(self, character: str) -> None:
        if not self.text.startswith(character, self.at):
            self.fail(f"'{character}' was expected")
        self.at += 1

    def opens(self) -> bool:
        """Whether an opening parenthesis follows; blanks before it are skipped."""
        match = tokens.OPENS(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        return True

    def open(self) -> None:
        """An opening parenthesis with blanks around it, one level deeper."""
        match = tokens.OPEN(self.text, self.at)
        if match is None:
            self.fail("'(' was expected")
        self.at = match.end()
        self.enter()

    def close(self) -> None:
        """Blanks and the closing parenthesis."""
        match = tokens.CLOSE(self.text, self.at)
        if match is None:
            self.blanks()
            self.fail("')' was expected")
        self.at = match.end()
        self.depth -= 1

    def comma(self) -> bool:
        """A comma with blanks around it, if there is one."""
        match = tokens.COMMA(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        return True

    def semicolon(self) -> bool:
        """A semicolon with blanks around it, if there is one."""
        match = tokens.SEMICOLON(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        return True

    def check_name(self, name: str, at: int) -> None:
        """An identifier has at most 128 characters (ABNF: odataIdentifier)."""
        if len(name) > tokens.LONGEST and any(len(part) > tokens.LONGEST for part in tokens.PARTS(name)):
            self.fail(f"a name is longer than {tokens.LONGEST} characters", at)
