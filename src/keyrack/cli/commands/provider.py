"""Providers of single sign-on, whose accounts managers and drivers sign in with."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, LiteralString

import typer

from keyrack.auth.sso import providers
from keyrack.auth.sso.errors import ProviderTrouble
from keyrack.auth.sso.login_flow import MANAGERS, SignOn
from keyrack.auth.sso.provider_urls import allows
from keyrack.auth.sso.providers import ALGORITHMS, LIST
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.confirmation import NO_WAY_BACK, ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import reference, which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.cli.server_address import note_on_link
from keyrack.core.addresses import domain_form
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint
from keyrack.drivers.sso import DRIVERS

app = typer.Typer()

UPDATE: LiteralString = """
update provider set label = coalesce($2, label), client_id = coalesce($3, client_id),
  algorithms = coalesce($4, algorithms), counts_mfa = coalesce($5, counts_mfa),
  driver_customer_id = case when $7 then null else coalesce($6, driver_customer_id) end
where provider_id = $1 returning name
"""
LEAVE: LiteralString = "delete from provider_domain where provider_id = $1 and domain = any($2::text[])"
TAKE: LiteralString = """
insert into provider_domain (domain, provider_id) select distinct d, $1::integer from unnest($2::text[]) d
where not exists (select from provider_domain where provider_id = $1 and domain = d)
"""
CUSTOMER: LiteralString = "select exists (select from customer where customer_id = $1)"
PEOPLE: LiteralString = """
select (select count(*) from manager_identity where provider_id = $1) as managers,
  (select count(*) from driver_identity where provider_id = $1) as drivers
"""
DELETE: LiteralString = "delete from provider where provider_id = $1 returning name"
TAKEN = ErrorCode("domain-taken", "One of these domains is another provider's already: keyrack provider list.")
OF_ANOTHER = {"provider_domain_pkey": (Conflict, TAKEN)}


def secret(value: str | None) -> str | None:
    """The client secret; `-` prompts for it or reads standard input, so that the process list does not show it."""
    if value is None:
        return None
    if value != "-":
        raise typer.BadParameter("must be -, which prompts for the secret or reads standard input")
    given = getpass.getpass("Client secret: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not given or len(given) > providers.LONGEST or not given.isprintable():
        raise typer.BadParameter("is empty, too long, or contains unprintable characters")
    return given


def name(value: str) -> str:
    """A provider's name, for addresses and commands."""
    if not (value.isascii() and value[:1].islower() and value.replace("-", "").isalnum() and value == value.lower()):
        raise typer.BadParameter("must have lower-case letters, digits and hyphens, and start with a letter")
    if len(value) > 32:
        raise typer.BadParameter("has more than 32 characters")
    return value


def algorithms(values: list[str] | None) -> list[str] | None:
    """The signature algorithms that tokens may use."""
    for value in values or []:
        if value not in ALGORITHMS:
            raise typer.BadParameter(f"{value} is not one of {', '.join(ALGORITHMS)}")
    return list(dict.fromkeys(values)) if values else None


def domains(values: list[str] | None) -> list[str] | None:
    """Domains of e-mail addresses, in their normal form."""
    domain_names = [_domain(value.strip()) for value in values or []]
    for domain in domain_names:
        if not domain or "@" in domain or not domain.isprintable() or any(letter.isspace() for letter in domain):
            raise typer.BadParameter(f"{domain!r} is not a domain such as example.com")
    return domain_names or None


def listed_domains(values: list[str] | None) -> list[str] | None:
    """Domains in both stored forms: as given, which earlier releases stored, and normalised."""
    texts = [value.strip() for value in values or []]
    return [*texts, *map(providers.comparable_domain, texts)] or None


def _domain(text: str) -> str:
    try:
        return domain_form(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a domain: {error}") from None


Provider = Annotated[int, which("provider")]
Label = Annotated[
    str | None,
    typer.Option(callback=words, help="Label of its sign-in button. Default: its name."),
]
Secret = typer.Option(
    "--client-secret", callback=secret, help="-: prompt for the client secret, or read it from standard input."
)
Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        callback=algorithms,
        help=f"Signature algorithm of tokens: {', '.join(ALGORITHMS)}. Repeatable. Default: RS256.",
    ),
]
Domains = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        callback=domains,
        help="A domain whose addresses the provider may verify. A person with a verified address there signs in as the "
        "manager whose user name it is. Repeatable.",
    ),
]
Drivers = Annotated[
    int | None,
    typer.Option(
        "--drivers",
        parser=reference("customer"),
        metavar="ID|NAME",
        help="A customer whose drivers may sign in to the app at /drive as well.",
    ),
]
Mfa = Annotated[
    bool | None,
    typer.Option("--mfa/--no-mfa", help="Accept the provider's statement about a second factor."),
]


@command(app, "add")
async def add(
    session: DatabaseSession,
    name: Annotated[str, typer.Argument(metavar="NAME", callback=name, help="The provider's name in Keyrack.")],
    issuer: Annotated[str, typer.Option(help="The issuer, exactly as in the provider's discovery document.")],
    client_id: Annotated[str, typer.Option(callback=words, help="Keyrack's client id at the provider.")],
    client_secret: Annotated[str, Secret],
    label: Label = None,
    algorithm: Algorithms = None,
    domain: Domains = None,
    mfa: Mfa = None,
    drivers: Drivers = None,
) -> CommandResult:
    """Add a provider of single sign-on."""
    if not allows(issuer, session.settings) or "?" in issuer or len(issuer) > providers.LONGEST:
        raise typer.BadParameter("must be an https address without a query", param_hint="--issuer")
    await _check_customer(session, drivers)
    with on_constraint(
        {"provider_name_key": (Conflict, ErrorCode("provider-exists", f"There is already a provider called {name}."))}
    ):
        id = await providers.add(
            session.sql, await session.vault(), name, label or name, issuer,
            (client_id, client_secret), algorithm or ["RS256"], counts_mfa=bool(mfa),
        )  # fmt: skip
    with on_constraint(OF_ANOTHER):
        await session.sql.execute(TAKE, id, domain or [])
    if drivers is not None:
        await session.sql.execute(UPDATE, id, None, None, None, None, drivers, False)
    address = MANAGERS.callback(session.settings)
    text = f"Provider {id} added: {name}.\nRegister this redirect URI at the provider: {address}"
    value = {"id": id, "name": name, "redirectUri": address}
    result = _with_drivers(session, CommandResult(value, text), drivers)
    return CommandResult(result.value, result.text + note_on_link(session.settings))


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession) -> ListResult:
    """List all providers, with the number of connected accounts."""
    columns = {
        "ID": "id", "NAME": "name", "ISSUER": "issuer", "CLIENT": "clientId", "ALGORITHMS": "algorithms",
        "DOMAINS": "domains", "MFA": "countsMfa", "PEOPLE": "people",
        "DRIVERS OF": "driverCustomerId", "DRIVERS": "drivers",
    }  # fmt: skip
    return ListResult([dict(row) for row in await session.sql.fetch(LIST)], columns)


@command(app, "change")
async def change(
    session: DatabaseSession,
    id: Provider,
    label: Label = None,
    client_id: Annotated[str | None, typer.Option(callback=words, help="Keyrack's client id at the provider.")] = None,
    client_secret: Annotated[str | None, Secret] = None,
    algorithm: Algorithms = None,
    domain: Domains = None,
    remove_domain: Annotated[
        list[str] | None,
        typer.Option(callback=listed_domains, help="A domain whose addresses it may no longer verify."),
    ] = None,
    mfa: Mfa = None,
    drivers: Drivers = None,
    no_drivers: Annotated[
        bool, typer.Option("--no-drivers", help="Sign in no drivers any more. Their sessions by this provider end.")
    ] = False,
) -> CommandResult:
    """Change a provider, from the next sign-in on. The issuer cannot change: add another provider for it."""
    given = (label, client_id, client_secret, algorithm, domain, remove_domain, mfa, drivers, no_drivers or None)
    if all(value is None for value in given):
        raise typer.BadParameter("Nothing to change. --help lists the options.")
    if drivers is not None and no_drivers:
        raise typer.BadParameter("--drivers and --no-drivers exclude each other. Give one of them.")
    await _check_customer(session, drivers)
    name = await session.sql.fetchval(UPDATE, id, label, client_id, algorithm, mfa, drivers, no_drivers)
    if name is None:
        raise _no_provider(id)
    if client_secret is not None:
        await providers.seal(session.sql, await session.vault(), id, client_secret)
    await session.sql.execute(LEAVE, id, remove_domain or [])
    with on_constraint(OF_ANOTHER):
        await session.sql.execute(TAKE, id, domain or [])
    result = CommandResult({"id": id, "name": name}, f"Provider {id} changed: {name}.")
    return _with_drivers(session, result, drivers)


async def _check_customer(session: DatabaseSession, customer: int | None) -> None:
    """Raises `CommandFailed` if there is no such customer."""
    if customer is not None and not await session.sql.fetchval(CUSTOMER, customer):
        raise CommandFailed(f"There is no customer {customer}.")


def _with_drivers(session: DatabaseSession, result: CommandResult, customer: int | None) -> CommandResult:
    """The result with the redirect URI for drivers of the customer."""
    if customer is None:
        return result
    address = DRIVERS.callback(session.settings)
    text = f"{result.text}\nRegister this redirect URI for drivers at the provider: {address}"
    return CommandResult({**result.value, "driversRedirectUri": address}, text)


async def _preview(session: DatabaseSession, id: int) -> ConfirmationPreview | None:
    """The accounts that are disconnected with a provider."""
    people = await session.sql.fetchrow(PEOPLE, id)
    assert people is not None  # noqa: S101 - it counts
    then = f"All sessions that used it end. {NO_WAY_BACK}"
    counts = {"connected accounts": people["managers"], "connected drivers": people["drivers"]}
    affected = {noun: count for noun, count in counts.items() if count}
    return ConfirmationPreview(f"remove provider {id}", affected, then) if affected else None


@command(app, "remove", preview=_preview)
async def remove(session: DatabaseSession, id: Provider) -> CommandResult:
    """Remove a provider, and end all sessions that used it."""
    name = await session.sql.fetchval(DELETE, id)
    if name is None:
        raise _no_provider(id)
    return CommandResult({"id": id}, f"Provider {id} removed: {name}.")


@command(app, "check")
async def check(session: DatabaseSession, id: Provider) -> CommandResult:
    """Check a provider: read its discovery document and keys, and report errors."""
    provider = await providers.of_id(session.sql, id)
    if provider is None:
        raise _no_provider(id)
    sign_on = SignOn(session.db, session.settings, await session.vault())
    try:
        metadata = await sign_on.examine(provider)
    except ProviderTrouble as trouble:
        raise CommandFailed(f"Sign-in with {provider.name} fails: {trouble}.") from None
    finally:
        await sign_on.close()
    value = {
        "id": id,
        "authorizationEndpoint": metadata.authorization,
        "tokenEndpoint": metadata.token,
        "endSessionEndpoint": metadata.end_session,
        "tellsIssuer": metadata.tells_issuer,
    }
    return CommandResult(value, f"{provider.name} responds as {provider.issuer}, and its keys are readable.")


def _no_provider(id: int) -> CommandFailed:
    return CommandFailed(f"There is no provider {id}.")
