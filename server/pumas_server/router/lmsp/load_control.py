"""LoadControl: how the catalogue's two actions reach whatever loads and unloads models."""

from __future__ import annotations

from typing import Protocol

from pumas_crds.vocabulary import LoadState


class ModelGone(Exception):
    """No model has this uid any more."""


class NotLoadable(Exception):
    """The model as it is specified cannot be loaded, or unloaded: why, in a sentence."""


class LoadControl(Protocol):
    """Whoever carries loads and unloads out. Both may be asked any number of times.

    Both raise `ModelGone`, `NotLoadable`, and `pumas_server.router.steering.Unsteerable` when it
    cannot be done now.
    """

    async def load(self, model_uid: str) -> LoadState:
        """Have the model loaded: `LOADED` when it was ready and nothing was done, else `LOADING`,
        begun by this or underway."""
        ...

    async def unload(self, model_uid: str) -> LoadState:
        """Have the model unloaded. Returns the state to show: `UNLOADING`, `UNLOADED`, or `FAILED`,
        which only a load leaves."""
        ...
