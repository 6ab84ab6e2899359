"""Which of several ServedModels that ask for one alias and profile is served. Pure.

The oldest is, then the one with the smaller uid, so that a newcomer never takes a name away from
what serves. The operator tells the others so, and routers list them not: each decides from the
API's objects, so the rule stands here, once for both. It needs no model that can be read: one that
cannot holds its name all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from pumas_crds.vocabulary import DEFAULT_PROFILE

Pair = tuple[str, str]


def read_identity(body: Mapping[str, object]) -> Pair:
    """The effective alias and profile of an object of the API."""
    alias = _text(body, "spec", "alias") or _text(body, "metadata", "name")
    return alias, _text(body, "spec", "profile") or DEFAULT_PROFILE


def age_of(body: Mapping[str, object]) -> Pair:
    """What the order among rivals goes by: creation time (RFC 3339 in UTC) and uid."""
    return _text(body, "metadata", "creationTimestamp"), _text(body, "metadata", "uid")


def _text(body: Mapping[str, object], part: str, name: str) -> str:
    """The text at a member of a part; empty when there is none."""
    holder = body.get(part)
    found = holder.get(name) if isinstance(holder, Mapping) else None
    return found if isinstance(found, str) else ""
