"""Providers: where people have the accounts with which they sign in (single sign-on)."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, LiteralString

import typer

from keyrack.auth.sso import providers
from keyrack.auth.sso.errors import ProviderTrouble
from keyrack.auth.sso.login_flow import CALLBACK, SignOn
from keyrack.auth.sso.provider_urls import allows
from keyrack.auth.sso.providers import ALGORITHMS, LIST
from keyrack.cli.confirmation import NO_WAY_BACK, ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.cli.server_address import note_on_link
from keyrack.core.addresses import domain_form
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint

app = typer.Typer()

UPDATE: LiteralString = """
update provider set label = coalesce($2, label), client_id = coalesce($3, client_id),
  algorithms = coalesce($4, algorithms), counts_mfa = coalesce($5, counts_mfa)
where provider_id = $1 returning name
"""
LEAVE: LiteralString = "delete from provider_domain where provider_id = $1 and domain = any($2::text[])"
TAKE: LiteralString = """
insert into provider_domain (domain, provider_id) select distinct d, $1::integer from unnest($2::text[]) d
where not exists (select from provider_domain where provider_id = $1 and domain = d)
"""
PEOPLE: LiteralString = "select count(*) from manager_identity where provider_id = $1"
DELETE: LiteralString = "delete from provider where provider_id = $1 returning name"
TAKEN = ErrorCode("domain-taken", "One of these domains is another provider's already: keyrack provider list.")
OF_ANOTHER = {"provider_domain_pkey": (Conflict, TAKEN)}


def secret(value: str | None) -> str | None:
    """The client's secret; `-` asks for it, or reads it from standard input, where no list of processes shows it."""
    if value is None:
        return None
    if value != "-":
        raise typer.BadParameter("takes -: the secret is asked for, or read from standard input")
    given = getpass.getpass("Client secret: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not given or len(given) > providers.LONGEST or not given.isprintable():
        raise typer.BadParameter("is empty, or holds what cannot be printed")
    return given


def name(value: str) -> str:
    """A name for addresses and commands."""
    if not (value.isascii() and value[:1].islower() and value.replace("-", "").isalnum() and value == value.lower()):
        raise typer.BadParameter("takes lower-case letters, digits and hyphens, a letter first")
    if len(value) > 32:
        raise typer.BadParameter("has more than 32 characters")
    return value


def algorithms(values: list[str] | None) -> list[str] | None:
    """Those by which tokens may be signed."""
    for value in values or []:
        if value not in ALGORITHMS:
            raise typer.BadParameter(f"{value} is none of {', '.join(ALGORITHMS)}")
    return list(dict.fromkeys(values)) if values else None


def domains(values: list[str] | None) -> list[str] | None:
    """Domains of e-mail addresses, in their normal form."""
    domain_names = [_domain(value.strip()) for value in values or []]
    for domain in domain_names:
        if not domain or "@" in domain or not domain.isprintable() or any(letter.isspace() for letter in domain):
            raise typer.BadParameter(f"{domain!r} is no domain, such as example.com")
    return domain_names or None


def listed_domains(values: list[str] | None) -> list[str] | None:
    """Domains as they may be listed: as given, and in their normal form. A release before stored them as given."""
    texts = [value.strip() for value in values or []]
    return [*texts, *map(providers.comparable_domain, texts)] or None


def _domain(text: str) -> str:
    try:
        return domain_form(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no domain: {error}") from None


Provider = Annotated[int, which("provider")]
Label = Annotated[
    str | None,
    typer.Option(callback=words, help="What people call it, as its button does. Default: its name."),
]
Secret = typer.Option(
    "--client-secret", callback=secret, help="-: ask for the client's secret there, or read it from standard input."
)
Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        callback=algorithms,
        help=f"By which tokens may be signed: {', '.join(ALGORITHMS)}; may be given several times. Default: RS256.",
    ),
]
Domains = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        callback=domains,
        help="A domain whose addresses the provider may verify: who has one that is a manager's user name is that "
        "manager. May be given several times.",
    ),
]
Mfa = Annotated[
    bool | None,
    typer.Option("--mfa/--no-mfa", help="Whether it counts here that the provider says there was a second factor."),
]


@command(app, "add")
async def add(
    session: DatabaseSession,
    name: Annotated[str, typer.Argument(metavar="NAME", callback=name, help="What it is called here.")],
    issuer: Annotated[str, typer.Option(help="The provider's issuer, exactly as its discovery document says it.")],
    client_id: Annotated[str, typer.Option(callback=words, help="What Keyrack is called there.")],
    client_secret: Annotated[str, Secret],
    label: Label = None,
    algorithm: Algorithms = None,
    domain: Domains = None,
    mfa: Mfa = None,
) -> CommandResult:
    """Add a provider, with whose accounts people may sign in from now on."""
    if not allows(issuer, session.settings) or "?" in issuer or len(issuer) > providers.LONGEST:
        raise typer.BadParameter("The issuer is an https address without a query.", param_hint="--issuer")
    with on_constraint(
        {"provider_name_key": (Conflict, ErrorCode("provider-exists", f"There is already a provider called {name}."))}
    ):
        id = await providers.add(
            session.sql, await session.vault(), name, label or name, issuer,
            (client_id, client_secret), algorithm or ["RS256"], counts_mfa=bool(mfa),
        )  # fmt: skip
    with on_constraint(OF_ANOTHER):
        await session.sql.execute(TAKE, id, domain or [])
    address = session.settings.public_url.rstrip("/") + CALLBACK
    return CommandResult(
        {"id": id, "name": name, "redirectUri": address},
        f"Provider {id} added: {name}.\nRegister this redirect URI there: {address}" + note_on_link(session.settings),
    )


@command(app, "list")
async def list_(session: DatabaseSession) -> ListResult:
    """List all providers, and how many people have connected an account of each."""
    columns = {
        "ID": "id", "NAME": "name", "ISSUER": "issuer", "CLIENT": "clientId", "ALGORITHMS": "algorithms",
        "DOMAINS": "domains", "MFA": "countsMfa", "PEOPLE": "people",
    }  # fmt: skip
    return ListResult([dict(row) for row in await session.sql.fetch(LIST)], columns)


@command(app, "change")
async def change(
    session: DatabaseSession,
    id: Provider,
    label: Label = None,
    client_id: Annotated[str | None, typer.Option(callback=words, help="What Keyrack is called there.")] = None,
    client_secret: Annotated[str | None, Secret] = None,
    algorithm: Algorithms = None,
    domain: Domains = None,
    remove_domain: Annotated[
        list[str] | None,
        typer.Option(callback=listed_domains, help="A domain whose addresses it may verify no longer."),
    ] = None,
    mfa: Mfa = None,
) -> CommandResult:
    """Change a provider; it holds for the next sign-in. Its issuer stays: another one is another provider."""
    given = (label, client_id, client_secret, algorithm, domain, remove_domain, mfa)
    if all(value is None for value in given):
        raise typer.BadParameter("Say what to change; --help lists it.")
    name = await session.sql.fetchval(UPDATE, id, label, client_id, algorithm, mfa)
    if name is None:
        raise _no_provider(id)
    if client_secret is not None:
        await providers.seal(session.sql, await session.vault(), id, client_secret)
    await session.sql.execute(LEAVE, id, remove_domain or [])
    with on_constraint(OF_ANOTHER):
        await session.sql.execute(TAKE, id, domain or [])
    return CommandResult({"id": id, "name": name}, f"Provider {id} changed: {name}.")


async def _preview(session: DatabaseSession, id: int) -> ConfirmationPreview | None:
    """Whose accounts would go with a provider."""
    people = await session.sql.fetchval(PEOPLE, id)
    then = f"Whoever has signed in by it is signed out. {NO_WAY_BACK}"
    return ConfirmationPreview(f"remove provider {id}", {"connected accounts": people}, then) if people else None


@command(app, "remove", preview=_preview)
async def remove(session: DatabaseSession, id: Provider) -> CommandResult:
    """Remove a provider: nobody signs in by it any more, and whoever has done so is signed out."""
    name = await session.sql.fetchval(DELETE, id)
    if name is None:
        raise _no_provider(id)
    return CommandResult({"id": id}, f"Provider {id} removed: {name}.")


@command(app, "check")
async def check(session: DatabaseSession, id: Provider) -> CommandResult:
    """Ask a provider for its addresses and keys, and say what is wrong."""
    provider = await providers.of_id(session.sql, id)
    if provider is None:
        raise _no_provider(id)
    sign_on = SignOn(session.db, session.settings, await session.vault())
    try:
        metadata = await sign_on.examine(provider)
    except ProviderTrouble as trouble:
        raise CommandFailed(f"Nobody can sign in by {provider.name}: {trouble}.") from None
    finally:
        await sign_on.close()
    value = {
        "id": id,
        "authorizationEndpoint": metadata.authorization,
        "tokenEndpoint": metadata.token,
        "endSessionEndpoint": metadata.end_session,
        "tellsIssuer": metadata.tells_issuer,
    }
    return CommandResult(value, f"{provider.name} answers as {provider.issuer}, and its keys can be read.")


def _no_provider(id: int) -> CommandFailed:
    return CommandFailed(f"There is no provider {id}.")
