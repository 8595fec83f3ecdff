"""The buckets: how many signatures a box verifies and makes for those on its links (docs/key-boxes.md, "Buckets")."""

from __future__ import annotations

from dataclasses import replace

from keyrack.offline_keys.box import links
from keyrack.offline_keys.box.state import BoxMemory, PhoneBuckets, TokenBucket
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

COMMON, COMMON_PERIOD = 16, 1  # tokens that it holds, and the seconds after which it gets one
LINK, LINK_PERIOD = 8, 4
PHONE, PHONE_PERIOD = 4, 1


def take(state: BoxMemory, link: int, tick: int) -> None:
    """Take a token from the link's bucket and, without a proof, the common one.

    Raises `MessageRefused` if one of them is empty, and takes none then.
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
    """Take a token for an `open`: from the fitting bucket of a known phone, else as `take` does.

    `phone` is the thumbprint, or None for an `open` that cannot succeed. Raises `MessageRefused`.
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
    """The buckets of a phone that is remembered from now on."""
    bucket = TokenBucket(PHONE, tick)
    return PhoneBuckets(bucket, bucket)


def _counted(bucket: TokenBucket, tick: int, most: int, period: int) -> TokenBucket:
    """The bucket with one token more for each whole period that has passed."""
    periods = (tick - bucket.since) // period
    return TokenBucket(min(most, bucket.tokens + periods), bucket.since + periods * period)


def _less(bucket: TokenBucket) -> TokenBucket:
    return replace(bucket, tokens=bucket.tokens - 1)
