"""E-mail addresses: the normal form by which they are compared, and the form in which mail is sent to them.

The text of an address is stored as it was sent. Two texts are the same address if their normal forms are equal.
"""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase
from unicodedata import normalize

LONGEST_DOMAIN = 253  # characters (RFC 1035, section 2.3.4, in the notation with dots)

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
# NFC makes ";", "`" and "K" of these three. They stay: no other character becomes an ASCII character (CWE-178)
_ASCII_IN_NFC = re.compile("([\u037e\u1fef\u212a])")


def address_form(text: str) -> str:
    """The form by which an address or a user name is compared.

    The domain is in A-labels in lower case (UTS 46, non-transitional). The local part is in NFC, and A to Z are lower
    case. Nothing else is folded: full-width letters in a local part stay different. A text without `@` follows the rule
    of a local part. So does a domain that has no A-labels, which no valid address has.
    """
    form = _nfc(_nfc(text).translate(_LOWER))  # a small letter may compose with a mark that its capital does not
    local_part, at, domain = form.rpartition("@")
    if domain.isascii() or not at:
        return form
    try:
        return f"{local_part}@{domain_form(domain)}"
    except ValueError:
        return form


def domain_form(domain: str) -> str:
    """The normal form of a domain: A-labels in lower case (UTS 46, RFC 5891). Raises `ValueError` if there is none."""
    if len(domain) > LONGEST_DOMAIN:
        raise ValueError(f"a domain has at most {LONGEST_DOMAIN} characters")
    form = domain.translate(_LOWER)
    if form.isascii() and "xn--" not in form:
        return form
    from idna import IDNAError, encode  # its tables take long to load, and few domains need them

    try:
        return encode(form, uts46=True, transitional=False).decode("ascii")
    except IDNAError as error:
        raise ValueError(f"the domain is not valid: {error}") from None


def mail_recipient(address: str) -> str:
    """The address as mail servers know it: the local part unchanged, the domain in A-labels.

    Raises `ValueError` if no mail can be sent to it.
    """
    local_part, _, domain = address.rpartition("@")
    if not local_part or not domain:
        raise ValueError("an e-mail address has a local part and a domain")
    return f"{local_part}@{domain_form(domain)}"


def _nfc(text: str) -> str:
    parts = _ASCII_IN_NFC.split(text)
    return "".join(part if _ASCII_IN_NFC.match(part) else normalize("NFC", part) for part in parts)
