"""Messages of WebAuthn: options for browsers, and checks of their answers.

Only this module imports the WebAuthn library, which takes 5 MB of memory. So it is imported when the first passkey is
used.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import (
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.structs import (
    AuthenticationCredential,
    AuthenticatorSelectionCriteria,
    CredentialDeviceType,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

ALGORITHMS = [
    COSEAlgorithmIdentifier.ECDSA_SHA_256,
    COSEAlgorithmIdentifier.EDDSA,
    COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256,
]


class Options(NamedTuple):
    """Options for a browser as JSON, and their challenge."""

    options: dict[str, Any]
    challenge: bytes


class NewPasskey(NamedTuple):
    """A verified new passkey. `amr` is the name of its kind of key in RFC 8176."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    transports: list[str]
    aaguid: str
    is_backed_up: bool
    amr: str


class Assertion(NamedTuple):
    """An answer of a passkey to a challenge, not yet verified."""

    credential_id: bytes
    user_handle: bytes | None
    challenge: bytes
    credential: AuthenticationCredential


class VerifiedAssertion(NamedTuple):
    """A verified answer. `amr` is the name of the kind of key in RFC 8176."""

    sign_count: int
    is_backed_up: bool
    amr: str


def registration_options(rp: str, name: str, handle: bytes, known: Sequence[bytes], seconds: int) -> Options:
    """The options for a new passkey (PublicKeyCredentialCreationOptionsJSON).

    `rp` is the host name, `handle` the owner's id for the device, and `known` the ids of the owner's credentials.
    """
    options = generate_registration_options(
        rp_id=rp,
        rp_name="Keyrack",
        user_name=name,
        user_id=handle,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id) for id in known],
        supported_pub_key_algs=ALGORITHMS,
        timeout=seconds * 1000,
    )
    return Options(json.loads(options_to_json(options)), options.challenge)


def registration_challenge(credential: Mapping[str, Any]) -> bytes:
    """The challenge that a new passkey answers. Untrusted input raises exceptions of many types."""
    parsed = parse_registration_credential_json(dict(credential))
    return parse_client_data_json(parsed.response.client_data_json).challenge


def verify_registration(
    credential: Mapping[str, Any], challenge: bytes, rp: str, origins: Collection[str]
) -> NewPasskey:
    """The new passkey that answers the challenge. Untrusted input raises exceptions of many types."""
    parsed = parse_registration_credential_json(dict(credential))
    made = verify_registration_response(
        credential=parsed,
        expected_challenge=challenge,
        expected_rp_id=rp,
        expected_origin=sorted(origins),
        require_user_verification=True,
        supported_pub_key_algs=ALGORITHMS,
    )
    return NewPasskey(
        made.credential_id,
        made.credential_public_key,
        made.sign_count,
        [each.value for each in parsed.response.transports or []],
        made.aaguid,
        made.credential_backed_up,
        _amr(made.credential_device_type),
    )


def authentication_options(rp: str, seconds: int) -> Options:
    """The options to sign in (PublicKeyCredentialRequestOptionsJSON)."""
    options = generate_authentication_options(
        rp_id=rp, user_verification=UserVerificationRequirement.REQUIRED, timeout=seconds * 1000
    )
    return Options(json.loads(options_to_json(options)), options.challenge)


def parse_assertion(credential: str) -> Assertion:
    """The answer in a text. Untrusted input raises exceptions of many types."""
    parsed = parse_authentication_credential_json(credential)
    challenge = parse_client_data_json(parsed.response.client_data_json).challenge
    return Assertion(parsed.raw_id, parsed.response.user_handle, challenge, parsed)


def verify_assertion(assertion: Assertion, rp: str, origins: Collection[str], public_key: bytes) -> VerifiedAssertion:
    """The answer, if this key has signed it. Untrusted input raises exceptions of many types.

    The caller checks that it knows the challenge. It compares the sign count, so that a decrease is recorded.
    """
    verified = verify_authentication_response(
        credential=assertion.credential,
        expected_challenge=assertion.challenge,
        expected_rp_id=rp,
        expected_origin=sorted(origins),
        credential_public_key=public_key,
        credential_current_sign_count=0,
        require_user_verification=True,
    )
    return VerifiedAssertion(
        verified.new_sign_count, verified.credential_backed_up, _amr(verified.credential_device_type)
    )


def _amr(device: CredentialDeviceType) -> str:
    """The key's name in RFC 8176: hardware-bound, or synced by software."""
    return "hwk" if device is CredentialDeviceType.SINGLE_DEVICE else "swk"
