"""Help pages: first steps, words, and the API reference with calls to try."""

from __future__ import annotations

from keyrack.api.exchange import Response
from keyrack.console.rendering import page
from keyrack.console.words import WORDS
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()


@pages.get("/{customer}/help")
async def help(visit: Visit) -> Response:
    return await page(visit, "help.html", section="help", words=WORDS)


@pages.get("/{customer}/help/reference")
async def reference(visit: Visit) -> Response:
    return await page(visit, "reference.html", section="help")
