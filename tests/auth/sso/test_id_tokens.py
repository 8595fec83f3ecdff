"""Validation of identity tokens, by every algorithm that the operator may list."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from keyrack.auth.sso import id_tokens
from keyrack.auth.sso.discovery import Key, keys_of
from keyrack.auth.sso.errors import ProviderTrouble
from keyrack.auth.sso.id_tokens import ProviderAccount
from keyrack.auth.sso.providers import ALGORITHMS, Provider
from tests.support.log_lines import captured_events

ISSUER, CLIENT = "https://corp.example", "keyrack"
NOW = 1_800_000_000
SKEW = 60
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


def made(algorithm: str, kid: str = "one") -> Key:
    told: Any = {"kid": kid, "use": "sig"}
    if algorithm in CURVES:
        return ECKey.generate_key(CURVES[algorithm], told)
    return OKPKey.generate_key("Ed25519", told) if algorithm == "EdDSA" else RSAKey.generate_key(2048, told)


def token(key: Key, algorithm: str, header: dict[str, Any] | None = None, **claims: Any) -> str:
    whole = {"iss": ISSUER, "aud": CLIENT, "sub": "s", "nonce": "n", "iat": NOW, "exp": NOW + 300} | claims
    head = {"alg": algorithm, "kid": "one", **(header or {})}
    return jws.serialize_compact(head, json.dumps(whole), key, algorithms=[algorithm])  # lone surrogates as well


def account(text: str, keys: list[Key], algorithms: tuple[str, ...], *, counts_mfa: bool = False) -> ProviderAccount:
    public = keys_of({"keys": [key.as_dict(private=False) for key in keys]})

    async def find(kid: str | None) -> list[Key]:
        return [key for key in public if kid is None or key.kid == kid]

    provider = Provider(1, "corp", "Corp", ISSUER, CLIENT, algorithms, counts_mfa)
    return asyncio.run(id_tokens.verified(text, provider, "n", NOW, SKEW, find))


@pytest.mark.filterwarnings("ignore")  # of an algorithm's newer name
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_listed_algorithm_is_accepted(algorithm: str) -> None:
    key = made(algorithm)
    text = token(key, algorithm)
    assert account(text, [key], (algorithm,)) == ProviderAccount("s", None, False)
    others = tuple(one for one in ALGORITHMS if one != algorithm)
    with pytest.raises(ProviderTrouble, match=r"^alg"):
        account(text, [key], others)
    with pytest.raises(ProviderTrouble, match=r"^signature"):
        account(text, [made(algorithm)], (algorithm,))


def test_a_token_without_a_kid_is_verified_by_the_only_key() -> None:
    key, other = made("RS256"), made("RS256", "two")
    text = jwt.encode(
        {"alg": "RS256"}, {"iss": ISSUER, "aud": CLIENT, "sub": "s", "nonce": "n", "iat": NOW, "exp": NOW + 1}, key
    )
    assert account(text, [key, made("ES256", "three")], ("RS256", "ES256")).subject == "s"
    with pytest.raises(ProviderTrouble, match=r"^kid"):
        account(text, [key, other], ("RS256",))


@pytest.mark.parametrize(
    ("claims", "good"),
    [
        ({"exp": NOW - SKEW}, False),
        ({"exp": NOW - SKEW + 1}, True),
        ({"iat": NOW + SKEW}, True),
        ({"iat": NOW + SKEW + 1}, False),
        ({"exp": True}, False),
        ({"sub": "s" * 255}, True),
        ({"sub": ""}, False),
        ({"sub": "a\0b"}, False),
        ({"aud": [CLIENT]}, True),
        ({"aud": [[CLIENT]]}, False),
        ({"aud": {CLIENT: 1}}, False),
        ({"nonce": ["n"]}, False),
        ({"nonce": "\ud800"}, False),
    ],
)
def test_claims_at_their_limits(claims: dict[str, Any], good: bool) -> None:
    key = made("ES256")
    text = token(key, "ES256", **claims)
    if good:
        assert account(text, [key], ("ES256",)).subject == claims.get("sub", "s")
        return
    with pytest.raises(ProviderTrouble):
        account(text, [key], ("ES256",))


@pytest.mark.parametrize("email", ["\ud800@corp.example", "a\n@corp.example", "a" * 250 + "@x.example", "", 1, None])
def test_an_address_that_cannot_be_stored_is_no_verified_address(email: object) -> None:
    """A person of the provider may choose such an address. No page and no list of managers shows it."""
    key = made("ES256")
    given = account(token(key, "ES256", email=email, email_verified=True), [key], ("ES256",))
    assert not given.email


@pytest.mark.parametrize(
    ("value", "is_verified", "is_logged"),
    [(True, True, False), ("true", True, False), (False, False, False), (None, False, False), ("True", False, True),
     ("false", False, True), (1, False, True), (["true"], False, True), ("true ", False, True)],
)  # fmt: skip
def test_an_address_is_verified_by_true_alone(value: object, is_verified: bool, is_logged: bool) -> None:
    """Some providers send the text "true". Another value is logged, because no person of that provider is found."""
    key = made("ES256")
    with captured_events("email verification claim not boolean") as logs:
        given = account(token(key, "ES256", email="kim@corp.example", email_verified=value), [key], ("ES256",))
    assert (given.email == "kim@corp.example", bool(logs)) == (is_verified, is_logged)


def test_a_key_for_something_else_verifies_nothing() -> None:
    key = made("RS256")
    for lie in ({"use": "enc"}, {"kty": "oct", "k": "A" * 64}, {"n": "!"}):
        with pytest.raises(ProviderTrouble, match="no key"):
            keys_of({"keys": [key.as_dict(private=False) | lie]})
    (of_another,) = keys_of({"keys": [key.as_dict(private=False) | {"alg": "PS256"}]})
    with pytest.raises(ProviderTrouble, match=r"^kid"):
        account(token(key, "RS256"), [of_another], ("RS256", "PS256"))


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "é.é.é", "e30.e30.", "..", "x" * 40_000, None, 7, {"a": 1}])
def test_an_invalid_token_is_refused(text: Any) -> None:
    with pytest.raises(ProviderTrouble, match=r"^(id_token|alg)"):
        account(text, [made("ES256")], ("ES256",))


def test_a_reported_second_factor_counts_if_the_operator_trusts_it() -> None:
    key = made("ES256")
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"amr": ["pwd", "mfa"]}, True), ({"acr": "mfa"}, True), ({"amr": "mfa"}, False), ({}, False),
    ]  # fmt: skip
    for claims, said in cases:
        text = token(key, "ES256", **claims)
        assert account(text, [key], ("ES256",), counts_mfa=True).has_mfa is said
        assert not account(text, [key], ("ES256",)).has_mfa
