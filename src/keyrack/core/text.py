"""Rules for texts: blanks, direction controls, e-mail addresses and formulas of spreadsheets."""

from __future__ import annotations

import re
from unicodedata import normalize

from keyrack.core.addresses import domain_form

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8
LONGEST_ADDRESS = 254  # characters (RFC 5321, section 4.5.3.1.3)
LONGEST_LOCAL_PART = 64  # bytes (RFC 5321, section 4.5.3.1.1; of UTF-8 by RFC 6531, section 3.3)

# Invisible characters: the white space of Unicode and of Python, and characters without width, such as U+200B. Python,
# PostgreSQL and the validation of bodies each define white space differently. This is Keyrack's definition.
_UNSEEN = (
    r"\t-\r\x1c-\x20\x85\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
# Embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX #9): they make a name look like another
# one. Names of right-to-left scripts need none, and their marks U+200E, U+200F and U+061C are allowed.
_DIRECTION_CONTROLS = r"\u202a-\u202e\u2066-\u2069"
_REFUSED = rf"\x00{_DIRECTION_CONTROLS}"  # PostgreSQL's text holds no U+0000
FREE_TEXT = rf"^[^{_REFUSED}]*$"  # for a schema: what people and devices may write
NOT_BLANK = rf"^[^{_REFUSED}]*[^\x00{_UNSEEN}][^{_REFUSED}]*$"  # the same, with a visible character
# The number of another system: 1 to 128 characters without controls, and without invisible characters at its ends
_NO_CONTROL = rf"\x00-\x1f\x7f-\x9f{_DIRECTION_CONTROLS}"
REFERENCE = rf"^[^{_NO_CONTROL}{_UNSEEN}]([^{_NO_CONTROL}]*[^{_NO_CONTROL}{_UNSEEN}])?$"
NOT_BLANK_LINE = NOT_BLANK.replace(r"\x00", r"\x00-\x1f")  # and no other control character
_SEEN = re.compile(rf"[^{_UNSEEN}]")
_CONTROL = re.compile(f"[{_DIRECTION_CONTROLS}]")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # beginnings of formulas (CWE-1236)
# The same behind a separator: a spreadsheet of another language may cut the text there
_INSIDE = re.compile(r"([,;\t\r\n] *)(?=[=+\-@＝＋－＠])")


def without_byte_order_mark(body: bytes) -> bytes:
    """The body without UTF-8's byte order mark, which .NET and PowerShell write.

    See RFC 8259, section 8.1.
    """
    return body.removeprefix(BYTE_ORDER_MARK)


def nfc(text: str) -> str:
    """The text in NFC (UAX 15), in which free text is stored and compared.

    It is for free text: addresses have a form of their own (`core.addresses`), and secrets stay as they are.
    """
    return text if text.isascii() else normalize("NFC", text)


def trimmed(text: str) -> str:
    """The text without invisible characters at its ends; empty if it is blank."""
    first, last = _SEEN.search(text), _SEEN.search(text[::-1])
    return text[first.start() : len(text) - last.start()] if first and last else ""


def direction_control(text: str) -> str:
    """The first character of a text that changes the direction of others, as `U+202E`; "" if there is none."""
    control = _CONTROL.search(text)
    return code_point(control[0]) if control else ""


def visible_controls(text: str, form: str = "[{}]") -> str:
    """The text with `[U+202E]`, or another form, for each direction control."""
    return _CONTROL.sub(lambda control: form.format(code_point(control[0])), text)


def code_point(character: str) -> str:
    """The number of a character, such as `U+202E`."""
    return f"U+{ord(character):04X}"


def is_blank(text: str | None) -> bool:
    """Whether a text is missing, or has no visible character."""
    return text is None or _SEEN.search(text) is None


def email_address(text: str) -> str:
    """An e-mail address, trimmed and otherwise unchanged.

    Only the syntax is checked: a server of a private network has users at `.local` or `.test` (RFC 6761, RFC 6762). A
    domain without a dot is rejected, as most of them are typos. Raises `ValueError`.
    """
    from email_validator import SPECIAL_USE_DOMAIN_NAMES, validate_email  # its tables take 0.1 s to load

    SPECIAL_USE_DOMAIN_NAMES.clear()  # the library's own way to accept these domains
    address = trimmed(text)
    if len(address) > LONGEST_ADDRESS:
        raise ValueError(f"an e-mail address has at most {LONGEST_ADDRESS} characters")
    try:
        validate_email(address, check_deliverability=False)
        local_part, _, domain = address.rpartition("@")
        domain_form(domain)
    except ValueError as error:
        raise ValueError(str(error)) from None
    if len(local_part.encode()) > LONGEST_LOCAL_PART:
        raise ValueError(f"the part before the @-sign has at most {LONGEST_LOCAL_PART} bytes")
    return address


def no_formula(text: str) -> str:
    """The text, escaped so that no spreadsheet reads it as a formula.

    Formulas after blanks or separators are escaped as well.
    """
    inside = _INSIDE.sub(r"\1'", text)
    return f"'{inside}" if text.lstrip(" ").startswith(FORMULA) else inside


def N_(text: str) -> str:
    """Mark a text for the catalogues. It is translated where it is shown (gettext)."""
    return text
