"""In charge of what is wrong with a condition that somebody wrote, in the words of the visit.

The API tells programs, in English and with the names of types; what people can do something about is told apart here.
"""

from __future__ import annotations

import re

from keyrack.console.lists.query import OWN_ALIAS
from keyrack.console.lists.state import ListState
from keyrack.console.rendering import gettext, translate_error
from keyrack.core.errors import Refusal
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

# What a refusal says of every query, and how it calls a condition that has a name of its own
_NOISE = re.compile(rf"^The query specified in the URI is not valid\. | of {OWN_ALIAS}(?=:)")
# What may follow a sentence: the missing part, or the name that was probably meant
_HINT = r"(?: (?P<hint>[A-Z'].+))?"
_KNOWN = (
    (
        re.compile(r"Syntax error at position (?P<position>\d+): (?P<fault>.+?)\." + _HINT),
        N_("Syntax error at position %(position)s: %(fault)s."),
    ),
    (
        re.compile(r"Could not find a property named '(?P<name>[^']+)' on type '\w+'\." + _HINT),
        N_("The filter names %(name)s, which there is not here."),
    ),
    (
        re.compile(r"The operator '(?P<operator>\w+)' cannot compare Edm\.(?P<one>\w+) with Edm\.(?P<two>\w+)\..*"),
        N_("The filter compares with %(operator)s what cannot be compared: %(one)s and %(two)s."),
    ),
    (
        re.compile(r"A condition must be Edm\.Boolean, not Edm\.(?P<type>\w+)\."),
        N_("The filter is no condition: it would have to be true or false, and it is %(type)s."),
    ),
    (
        re.compile(r"'(?P<name>[^']+)' continues after a property that has no properties\."),
        N_("The filter names %(name)s, which there is not here."),
    ),
)
# What most often is the fault of a syntax error
SYNTAX = (
    N_("an operator or the end was expected"),
    N_("an expression was expected"),
    N_("the quoted value does not end"),
    N_("the literal is not valid"),
    N_("the value is not valid"),
    N_("a literal was expected"),
)


def wrong(visit: Visit, state: ListState, refusal: Refusal) -> str:
    """What the refusal of the state's rows says, in words."""
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
