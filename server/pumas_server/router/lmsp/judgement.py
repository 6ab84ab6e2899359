"""What a record that is there means for a request that comes with its key. Pure.

Clocks of routers may differ: by up to `CLOCK_MARGIN_SECONDS`, and no record is taken for nobody's
before that is over too. A clock that was wrong by more may let a key be done twice, and cannot pin
it: a record from so far ahead was written by such a clock, and is nobody's as well.
"""

from __future__ import annotations

from datetime import datetime

from pumas_server.router.lmsp.request_lease import RequestLease
from pumas_server.router.lmsp.request_records import InProgress, Replayed, Reused

CLOCK_MARGIN_SECONDS = 15.0


def judge(
    record: RequestLease | None, fingerprint: str, now: datetime
) -> Replayed | InProgress | Reused | None:
    """What to tell the request; None when the key is free to be taken over."""
    if record is None or expired(record, now):
        return None
    if record.fingerprint != fingerprint:
        return Reused()
    return InProgress() if record.answer is None else Replayed(record.answer)


def expired(record: RequestLease | None, now: datetime) -> bool:
    """Whether it is nobody's any more. One that cannot be read is nobody's."""
    if record is None:
        return True
    age = abs((now - record.renewed).total_seconds())
    return age > record.seconds + CLOCK_MARGIN_SECONDS
