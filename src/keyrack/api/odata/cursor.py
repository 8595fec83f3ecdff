"""In charge of the place in a text: the nesting, and the error with its position."""

from __future__ import annotations

from typing import NoReturn

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import UnsupportedNode
from keyrack.core import errors
from keyrack.core.error_codes import ErrorCode, FieldError

INVALID = ErrorCode(
    "invalid-query",
    "The query specified in the URI is not valid. {fault}",
    "Correct the query option; `errors` tells which one and where, as far as that is known. See docs/odata.md.",
)
NOT_SUPPORTED = ErrorCode(
    "query-not-supported", "{what} is not supported.", "Ask without it; docs/odata.md lists what there is."
)
LONGEST_MESSAGE = 500  # characters; it may quote a path of any length
NESTING = 50  # levels, unless a caller says otherwise


class Cursor:
    """Reads one option's `text`; `option` names it in messages.

    What is well-formed but not supported is noted, read on, and refused at the end, so that malformed text is 400
    wherever it stands.
    """

    __slots__ = ("at", "depth", "nesting", "option", "text", "unsupported")

    def __init__(self, option: str, text: str, nesting: int = NESTING) -> None:
        self.option = option
        self.text = text
        self.nesting = nesting
        self.at: int = 0
        self.depth: int = 0
        self.unsupported: str | None = None

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise `BadRequest` with the position, in characters from 0."""
        position = self.at if at is None else at
        short_message = message[:LONGEST_MESSAGE]
        fault = FieldError(
            "syntax", f"{short_message[:1].upper()}{short_message[1:]}.", parameter=self._parameter, position=position
        )
        text = f"Syntax error at position {position} of ${self.option}: {short_message}."
        raise errors.BadRequest(INVALID.format(fault=text), errors=[fault])

    def refuse_later(self, what: str) -> UnsupportedNode:
        """Note that `what` is not supported (a whole sentence less its end)."""
        self.unsupported = self.unsupported or what
        return UnsupportedNode(self.at)

    def finish(self) -> None:
        """Raise `BadRequest` unless the whole text is read, `NotImplemented` if something was noted."""
        if self.at != len(self.text):
            self.fail("an operator or the end was expected")
        if self.unsupported is not None:
            reason = NOT_SUPPORTED.format(what=self.unsupported[:LONGEST_MESSAGE])
            raise errors.NotImplemented(
                reason, errors=[FieldError("not-supported", reason.text, parameter=self._parameter)]
            )

    @property
    def _parameter(self) -> str | None:
        """The query option; the text of an alias does not tell whose it is."""
        return None if self.option == "expr" else f"${self.option}"

    def enter(self) -> None:
        """One level deeper. Raises `BadRequest` below the limit."""
        self.depth += 1
        if self.depth > self.nesting:
            self.too_deep()

    def too_deep(self) -> NoReturn:
        self.fail(f"the expression is nested deeper than the limit of {self.nesting} levels")

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def blanks(self) -> None:
        """Skip blanks, where the ABNF has BWS."""
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def expect(self, character: str) -> None:
        if not self.text.startswith(character, self.at):
            self.fail(f"'{character}' was expected")
        self.at += 1

    def open(self) -> None:
        """An opening parenthesis and blanks, one level deeper."""
        self.expect("(")
        self.enter()
        self.blanks()

    def close(self) -> None:
        """Blanks and the closing parenthesis."""
        self.blanks()
        self.expect(")")
        self.depth -= 1

    def comma(self) -> bool:
        """A comma with blanks around it, if there is one."""
        match = tokens.COMMA(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        return True

    def check_name(self, name: str, at: int) -> None:
        """An identifier has at most 128 characters (ABNF: odataIdentifier)."""
        if len(name) > tokens.LONGEST and any(len(part) > tokens.LONGEST for part in tokens.PARTS(name)):
            self.fail(f"a name is longer than {tokens.LONGEST} characters", at)
