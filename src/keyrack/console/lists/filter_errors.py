"""Errors of a typed OData filter, translated.

The API's texts are English and name types. This module recognises the errors that people can fix.
"""

from __future__ import annotations

import re

from keyrack.console.lists.query import OWN_ALIAS
from keyrack.console.lists.state import ListState
from keyrack.console.rendering import gettext, translate_error
from keyrack.core.errors import Refusal
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

# The prefix of every error of a query, and the alias of the typed filter
_NOISE = re.compile(rf"^The query specified in the URI is not valid\. | of {OWN_ALIAS}(?=:)")
# An optional second sentence: the missing part, or a suggested name
_HINT = r"(?: (?P<hint>[A-Z'].+))?"
_KNOWN = (
    (
        re.compile(r"Syntax error at position (?P<position>\d+): (?P<fault>.+?)\." + _HINT),
        N_("Syntax error at position %(position)s: %(fault)s."),
    ),
    (
        re.compile(r"Could not find a property named '(?P<name>[^']+)' on type '\w+'\." + _HINT),
        N_("The filter names %(name)s, which does not exist here."),
    ),
    (
        re.compile(r"The operator '(?P<operator>\w+)' cannot compare Edm\.(?P<one>\w+) with Edm\.(?P<two>\w+)\..*"),
        N_("The filter compares %(one)s and %(two)s with %(operator)s, which is not possible."),
    ),
    (
        re.compile(r"A condition must be Edm\.Boolean, not Edm\.(?P<type>\w+)\."),
        N_("The filter must be true or false, but it is %(type)s."),
    ),
    (
        re.compile(r"'(?P<name>[^']+)' continues after a property that has no properties\."),
        N_("The filter names %(name)s, which does not exist here."),
    ),
)
# The most common syntax errors
SYNTAX = (
    N_("an operator or the end was expected"),
    N_("an expression was expected"),
    N_("the quoted value does not end"),
    N_("the literal is not valid"),
    N_("the value is not valid"),
    N_("a literal was expected"),
)


def wrong(visit: Visit, state: ListState, refusal: Refusal) -> str:
    """The text of an error of the typed filter."""
    text = _NOISE.sub("", translate_error(visit, refusal.reason))
    if not state.own:
        return text
    for form, message in _KNOWN:
        if match := form.fullmatch(text):
            values = match.groupdict()
            if fault := values.pop("fault", ""):
                values["fault"] = gettext(visit, fault)
            hint = values.pop("hint", None)
            sentence = gettext(visit, message, **values)
            return f"{sentence} {hint}" if hint else sentence
    return text
