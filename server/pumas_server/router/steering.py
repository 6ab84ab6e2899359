"""Steering: the two things that a router may ask for beside calls, and who carries them out.

How many pods a model is to have (`/scale`), and that it is wanted (the demand Lease). In a cluster
both are writes of the Kubernetes API; in local mode the node does them. Routers decide from what
they have read, so a change of replicas holds only for the version that was looked at.
"""

from __future__ import annotations

from typing import Protocol

from pumas_crds.served_model import ServedModel


class Outdated(Exception):
    """The model has changed since it was looked at, or is gone: look again, then decide again."""


class Unsteerable(Exception):
    """It cannot be carried out now, or nobody knows whether it was; one sentence for people."""

    def __init__(self, message: str, *, begun: bool = True) -> None:
        super().__init__(message)
        self.begun = begun
        """Something was written, or sent to be written: it may have had an effect."""


class Steering(Protocol):
    """Whoever carries it out."""

    async def scale(self, model: ServedModel, replicas: int) -> None:
        """Have so many pods wanted of the model as it was read (`metadata.resource_version`).

        Raises `Outdated`, and then nothing was changed; raises `Unsteerable`.
        """
        ...

    async def renew(self, model: ServedModel) -> None:
        """Tell that the model is used, or waited for, now. Raises `Unsteerable`."""
        ...

    async def ask_again(self, model: ServedModel) -> None:
        """Ask for a load in so many words: a model that failed for good is tried once more.

        Also tells that it is wanted, as `renew` does. Raises `Unsteerable`.
        """
        ...


_MAY_NOT = "this router may not load or unload models"


class NoSteering:
    """For a router that may only look: nothing is loaded or unloaded by it."""

    async def scale(self, model: ServedModel, replicas: int) -> None:
        """Refused."""
        raise Unsteerable(_MAY_NOT, begun=False)

    async def renew(self, model: ServedModel) -> None:
        """Nobody is there to be told."""

    async def ask_again(self, model: ServedModel) -> None:
        """Refused."""
        raise Unsteerable(_MAY_NOT, begun=False)


NO_STEERING = NoSteering()
