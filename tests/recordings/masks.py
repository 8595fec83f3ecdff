"""Masks: values that vary between runs become stable names."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from tests.recordings.wire import Response

MOMENT = re.compile(
    r"(\d{4})-\d\d-\d\d(?:[T ]|%20)\d\d(?::|%3A)\d\d(?:(?::|%3A)\d\d(?:\.\d+)?)?(?:Z|(?:[+-]|%2B)\d\d(?::|%3A)\d\d)?"
)
DAY = re.compile(r"\b(\d{4})-\d\d-\d\d\b")
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TOKEN = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+")
MESSAGE = re.compile(r"\b0oRY[\w-]{60,}")  # a COSE_Sign1 in base64url
# Members of JSON that vary between runs
SECRET_MEMBERS = (
    "access_token|id_token|apiKey|clientId|client_id|clientSecret|signingSecret|password|link|secret|uri|challenge"
    "|traceId|requestId|nonce|key|keySet|statusList|receipt|provisioning|time|root|note|record|epoch|kid|n|x|y"
    "|lastEventId|subject|publicKey"
)
SHORTEST = 8  # minimum length of such a value
MEMBER = re.compile(rf'("(?:{SECRET_MEMBERS})" ?: ?)"((?:[^"\\]|\\.)*)"')
ASSETS = re.compile(r"(?<=/console/assets/)[0-9a-f]{16}(?=/)")  # changes with every file of the console
# Positions in a stream or a list, retry delays, and entity tags of forms
PLACE = re.compile(r'(data-since="|^id: |^retry: |name="tag" value=")[^"\n]*', re.MULTILINE)
SECONDS = re.compile(r"(?<=Retry in )\d+(?= seconds)")
MILLISECONDS = re.compile(r"\b\d+(?=(?:\s|&nbsp;)ms\b)")
# Times in the form of pages
SHOWN = re.compile(r'(<time datetime="<time>">)[^<]*')
WEEKDAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun|Mo|Di|Mi|Do|Fr|Sa|So|[A-Z][a-zö]+(?:day|tag|woch)"
MONTHS = "Jan|Feb|Mar|Mär|Apr|May|Mai|Jun|Jul|Aug|Sep|Sept|Oct|Okt|Nov|Dec|Dez"
WEEKDAY = re.compile(rf"\b(?:{WEEKDAYS})\.?,? (?=\d{{1,2}}\.? (?:{MONTHS}))")
DATE = re.compile(rf"\b\d{{1,2}}\.?(?:\s?–\s?\d{{1,2}}\.?)? (?:{MONTHS})[a-zäzü]*\.?(?: (\d{{4}})\b)?")
STAMP = re.compile(r"(?<=webhook-timestamp: )\d+")
TODAY = ' aria-current="date"'
LISTS = re.compile(r'("(?:codes|inclusion|consistency|names)" ?: ?)\[[^\]]*\]')
USER_HANDLE = re.compile(r'("user": \{"id": )"[^"]*"')  # the user handle of a passkey
DURATION = re.compile(r'("(?:duration|retryAfter)" ?: ?)\d+')
USED = re.compile(r'("(?:lastUsed|lastSeen|usedAt)" ?: ?)(?:null|"[^"]*")')
# Reads whose ETag depends on times, even if the response does not show them
TIMED = re.compile(
    r"/(operations|changes|webhooks|deliveries|invitations|clients|managers|sessions|me|devices|keys|positions|telemetry"
    r"|location|enrolment|status|retention|customers|access|track|samples)\b"
)
# Headers that vary between responses
HEADERS = {"date", "keyrack-position", "last-event-id", "retry-after", "ratelimit", "ratelimit-policy"}
MADE_ID = re.compile(r"[0-9a-f]{32}")
SET_COOKIE = re.compile(r"^([\w-]+=)[^;]+")
UNPRINTABLE = re.compile("[\\0-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\udc80-\\udcff]")


def printable(text: str) -> str:
    """Replace control characters and bytes that are not UTF-8 by ASCII escapes."""
    return UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text)


class Masks:
    """The masked values: equal values get equal names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._uuids: dict[str, str] = {}
        self._place = ""
        self._count = 0
        self._tags: dict[str, bool] = {}  # ETags, and whether they are equal in every run

    def name(self, value: str, name: str) -> None:
        """Register a name for a secret."""
        self._names[value] = f"<{name}>"
        self._names[quote(value, safe="")] = f"<{name}>"
        self._pattern = re.compile("|".join(re.escape(each) for each in sorted(self._names, key=len, reverse=True)))

    def enter(self, title: str) -> None:
        """Start another exchange. New values in it are named after it."""
        self._place, self._count = title, 0

    def text(self, text: str) -> str:
        """Mask every varying value in a text."""
        if self._names:
            text = self._pattern.sub(lambda found: self._names[found[0]], text)
        text = TOKEN.sub("<token>", text)
        text = MESSAGE.sub("<signed message>", text)
        text = ASSETS.sub("<digest>", text)
        text = UUID.sub(self._uuid, text)
        text = MOMENT.sub(self._moment, text)
        return DAY.sub(self._day, text)

    def varies(self, text: str) -> bool:
        """Whether a text varies between runs or machines."""
        moment = MOMENT.search(text)
        is_named = bool(self._names) and self._pattern.search(text) is not None
        is_made = any(pattern.search(text) for pattern in (UUID, ASSETS))
        return is_named or is_made or (moment is not None and _is_now(moment[1]))

    def title(self, title: str) -> str:
        """The title of an exchange, with known names only."""
        self.enter(title)
        return self.text(title)

    def body(self, text: str) -> str:
        """Mask every varying value in the body of a response."""
        text = self.text(text)
        text = MEMBER.sub(_member, text)
        text = LISTS.sub(r"\1[<masked>]", text)
        text = DATE.sub(self._day, WEEKDAY.sub("", SHOWN.sub(r"\1<time>", text))).replace(TODAY, "")
        text = STAMP.sub("<n>", text)
        text = PLACE.sub(r"\1<masked>", SECONDS.sub("<n>", MILLISECONDS.sub("<n>", text)))
        text = USER_HANDLE.sub(r'\1"<masked>"', text)
        text = DURATION.sub(r"\1<duration>", text)
        return USED.sub(r"\1<last use>", text)

    def headers(self, asked: str, response: Response, *, is_varying: bool) -> list[tuple[str, str]]:
        """The headers of a response, sorted. `is_varying` means that its body was masked."""
        is_timed = TIMED.search(asked.partition("\n")[0]) is not None
        is_head = asked.startswith("> HEAD ")
        packed = response.header("Content-Encoding") is not None
        shown: list[tuple[str, str]] = []
        for name, value in response.headers:
            key = name.lower()
            if key in HEADERS:
                value = f"<{key}>"
            elif key == "x-request-id" and value not in asked and MADE_ID.fullmatch(value):
                value = "<request-id>"
            elif key == "etag":
                value = self._tag(value, is_varying or is_timed, bool(response.body))
            elif key == "content-length" and (is_varying or is_head or packed):
                value = "<length>" if is_head or packed or int(value) == len(response.body) else "<wrong length>"
            elif key == "set-cookie":
                value = SET_COOKIE.sub(r"\1<cookie>", value)
            shown.append((key, self.text(value)))
        return sorted(shown)

    def _uuid(self, found: re.Match[str]) -> str:
        """A name that does not depend on other exchanges."""
        if found[0] not in self._uuids:
            self._count += 1
            digest = hashlib.sha256(f"{self._place} {self._count}".encode()).hexdigest()
            self._uuids[found[0]] = f"<uuid-{digest[:8]}>"
        return self._uuids[found[0]]

    def _moment(self, found: re.Match[str]) -> str:
        return "<time>" if _is_now(found[1]) else found[0]

    def _day(self, found: re.Match[str]) -> str:
        return "<day>" if found[1] is None or _is_now(found[1]) else found[0]

    def _tag(self, value: str, is_varying: bool, has_body: bool) -> str:
        """Mask an ETag unless its body is the same in every run."""
        plain = value.replace('-gzip"', '"')
        is_steady = self._tags.setdefault(plain, has_body and not is_varying)
        return value if is_steady else re.sub(r'"[^"]*?(-gzip)?"', r'"<etag>\1"', value)

    def tags(self, value: str) -> str:
        """Mask ETags in a conditional header of a request."""
        for tag, is_steady in self._tags.items():
            if not is_steady:
                value = value.replace(tag.strip('"'), "<etag>")
        return value


def _is_now(year: str) -> bool:
    """Whether the year can be the present. Data of the fleet are before and after."""
    return 2020 <= int(year) < 2040


def _member(found: re.Match[str]) -> str:
    """Mask a member's value unless it is masked or too short."""
    is_plain = len(found[2]) < SHORTEST or re.fullmatch(r"<[^>]*>", found[2])
    return found[0] if is_plain else f'{found[1]}"<masked>"'
