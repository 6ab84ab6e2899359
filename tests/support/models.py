"""ServedModels and ServingProfiles as tests need them."""

from __future__ import annotations

from typing import Any

from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile


def served_model(name: str = "tiny", *, uid: str = "uid-of-tiny", **spec: Any) -> ServedModel:
    """A model of a file that need not exist; `spec` is camelCase and adds or replaces members."""
    if spec.get("runtime") != "external":
        spec.setdefault("source", {"path": "/weights/tiny.gguf"})
    return ServedModel.model_validate({"metadata": {"name": name, "uid": uid}, "spec": spec})


def external_model(url: str, name: str = "far") -> ServedModel:
    """A model that a server at `url` answers for."""
    return served_model(name, runtime="external", endpoint={"url": url})


def serving_profile(name: str = "default", **spec: Any) -> ServingProfile:
    """A profile; `spec` is camelCase."""
    return ServingProfile.model_validate({"metadata": {"name": name}, "spec": spec})
