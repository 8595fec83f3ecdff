"""Help: first steps in words, and the reference of the API, where each call can be tried as who is signed in."""

from __future__ import annotations

from keyrack.api.exchange import Response
from keyrack.console.rendering import page
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()


@pages.get("/{customer}/help")
async def help(visit: Visit) -> Response:
    return await page(visit, "help.html", section="help")


@pages.get("/{customer}/help/reference")
async def reference(visit: Visit) -> Response:
    return await page(visit, "reference.html", section="help")
