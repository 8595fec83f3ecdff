"""Token buckets for the signatures of a box (docs/key-boxes.md, "Buckets").

They limit the signatures that a box verifies and makes for links and phones.
"""

from __future__ import annotations

from dataclasses import replace

from keyrack.offline_keys.box import links
from keyrack.offline_keys.box.state import BoxMemory, PhoneBuckets, TokenBucket
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

COMMON, COMMON_PERIOD = 16, 1  # capacity in tokens, and seconds until the next token
LINK, LINK_PERIOD = 8, 4
PHONE, PHONE_PERIOD = 4, 1


def take(state: BoxMemory, link: int, tick: int) -> None:
    """Take a token from the link's bucket and from the common one.

    A proven link takes none from the common one. Raises `MessageRefused` if a bucket is empty, and takes no token then.
    """
    running, this = state.running, state.running.links[link]
    own = _counted(this.bucket, tick, LINK, LINK_PERIOD)
    common = _counted(running.bucket, tick, COMMON, COMMON_PERIOD)
    is_proven = links.is_proven(state, link, tick)
    is_busy = not own.tokens or not (common.tokens or is_proven)
    links.put(state, link, replace(this, bucket=own if is_busy else _less(own)))
    running.bucket = common if is_busy or is_proven else _less(common)
    if is_busy:
        raise MessageRefused(BoxRefusalCode.BUSY)


def take_for_open(state: BoxMemory, link: int, tick: int, phone: bytes | None, *, is_remembered_key: bool) -> None:
    """Take a token for an `open`.

    A remembered phone has a bucket for remembered keys and one for other keys. The token is taken from the one for this
    key. If that is empty, or the phone is not remembered, the token is taken as in `take`. `phone` is the thumbprint,
    or None for an `open` that cannot succeed. Raises `MessageRefused`.
    """
    buckets = state.running.phone_buckets
    if phone is not None and phone in buckets:
        both = buckets[phone]
        own = _counted(both.remembered_key if is_remembered_key else both.other_key, tick, PHONE, PHONE_PERIOD)
        left = _less(own) if own.tokens else own
        buckets[phone] = replace(both, remembered_key=left) if is_remembered_key else replace(both, other_key=left)
        if own.tokens:
            return
    take(state, link, tick)


def full(tick: int) -> PhoneBuckets:
    """The full buckets of a newly remembered phone."""
    bucket = TokenBucket(PHONE, tick)
    return PhoneBuckets(bucket, bucket)


def _counted(bucket: TokenBucket, tick: int, most: int, period: int) -> TokenBucket:
    """The bucket with one more token for each whole period."""
    periods = (tick - bucket.since) // period
    return TokenBucket(min(most, bucket.tokens + periods), bucket.since + periods * period)


def _less(bucket: TokenBucket) -> TokenBucket:
    return replace(bucket, tokens=bucket.tokens - 1)
