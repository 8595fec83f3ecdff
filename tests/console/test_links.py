"""Links between pages: none is broken."""

from __future__ import annotations

import re
from html import unescape

from tests.support.people import Person

MOST = 150  # pages that are visited
VALUE = re.compile(r"(?<=/)\d+|(?<==)[^&]*")  # an id, or the value of a query's parameter


def test_no_link_leads_nowhere(carol: Person) -> None:
    """Every link is followed, from Today on. Links that differ only in such values count as one."""
    carol.put("/webhooks", {"url": "https://example.org/keyrack"})
    car, user = carol.car_with_box("Golf"), carol.user()
    carol.assignment(car, user)
    carol.event(car, user)
    root = f"/console/{carol.customer}"
    waiting, seen, lost = [(root, "")], {root}, list[str]()
    with carol.browser() as client:
        site = client.base_url.copy_with(path="/")
        while waiting:
            address, of = waiting.pop(0)
            page = client.get(site.join(address), follow_redirects=True)
            if page.status_code != 200:
                lost.append(f"{address} of {of}: {page.status_code}")
            for found in re.findall(r'<a [^>]*?href="([^"#]*)', page.text):
                link = unescape(found)
                kind = VALUE.sub("", link.removeprefix(root))
                if link.startswith(root) and "sort=" not in kind and kind not in seen and len(seen) < MOST:
                    seen.add(kind)
                    waiting.append((link, address))
    assert lost == []
    assert len(seen) < MOST
