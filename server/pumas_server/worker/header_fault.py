"""HeaderFault: why a file's header rules it out."""

from __future__ import annotations

from pumas_crds.vocabulary import Reason


class HeaderFault(Exception):
    """The file cannot be a model that we serve."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class EndsInHeader(HeaderFault):
    """The bytes end before their header does: a file cut short, or only its beginning."""


def no_model(message: str) -> HeaderFault:
    """The fault of a file that is not what it has to be, whole as it is."""
    return HeaderFault(Reason.NOT_A_MODEL, message)
