"""Refusals that need no look at a file: what release, machine or profile rule out."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from pumas_crds.facts import Fault
from pumas_crds.served_model import ExternalEndpoint, ServedModelSpec
from pumas_crds.serving_profile import ANY_HOST, ServingProfile, ServingProfileSpec
from pumas_crds.source import HUB_HOST, HUB_VARIABLE, Source
from pumas_crds.vocabulary import BUILT_RUNTIMES, Reason, Runtime
from pumas_operator.host_folder import ROOT, host_folder


def build_refusal(spec: ServedModelSpec, profile: ServingProfile, *, local: bool) -> Fault | None:
    """Why the model is not run at all, or None.

    `local`: the router runs on the user's own machine, which is theirs to address and whose files
    are theirs to read; in a cluster only the profile's lists count, since an address or a path
    says nothing about who owns it.
    """
    if spec.runtime not in BUILT_RUNTIMES:
        return _not_implemented(f"runtime {spec.runtime} is not implemented in this release.")
    if spec.endpoint is not None and not _endpoint_allowed(spec.endpoint, profile.spec, local):
        return Fault(
            reason=Reason.ENDPOINT_NOT_ALLOWED,
            message="The host of endpoint.url is not one of allowedEndpointHosts of the profile"
            f" {profile.metadata.name}.",
        )
    if local:
        return _beyond_one_machine(spec)
    for field, source in (("source", spec.source), ("projector", spec.projector)):
        refusal = None if source is None else _source_refusal(field, source, profile, spec.runtime)
        if refusal is not None:
            return refusal
    return None


def _beyond_one_machine(spec: ServedModelSpec) -> Fault | None:
    for field, source in (("source", spec.source), ("projector", spec.projector)):
        if source is not None and source.path is None:
            (member,) = source.model_dump(by_alias=True, exclude_none=True)
            return _not_implemented(
                f"{field}.{member} is not implemented in local mode: name a file with {field}.path."
            )
    if spec.replicas > 1:
        return _not_implemented(
            f"replicas {spec.replicas} is not implemented in local mode, which runs one pod."
        )
    return None


def _source_refusal(
    field: str, source: Source, profile: ServingProfile, runtime: Runtime
) -> Fault | None:
    spec, name = profile.spec, profile.metadata.name
    if source.http is not None and not _listed(source.http.host(), spec.allowed_source_hosts):
        return _source_not_allowed(
            f"The host of {field}.http.url is not one of allowedSourceHosts of the profile {name}."
        )
    if source.hugging_face is not None and not _listed(_hub(spec), spec.allowed_source_hosts):
        return _source_not_allowed(
            f"The hub's host is not one of allowedSourceHosts of the profile {name}."
        )
    if source.path is not None and not _allowed(source.path, runtime, spec.allowed_host_paths):
        return _source_not_allowed(
            f"{field}.path lies below none of allowedHostPaths of the profile {name}."
        )
    return None


def _endpoint_allowed(endpoint: ExternalEndpoint, profile: ServingProfileSpec, local: bool) -> bool:
    allowed, host = profile.allowed_endpoint_hosts, endpoint.host().lower()
    return _listed(host, allowed) or (local and (not allowed or _is_loopback(host)))


def _listed(host: str, allowed: Iterable[str]) -> bool:
    return any(item == ANY_HOST or item.lower() == host.lower() for item in allowed)


def _hub(profile: ServingProfileSpec) -> str:
    """The host that a hub's repository is fetched from."""
    named = {variable.name: variable.value for variable in profile.env}.get(HUB_VARIABLE)
    return HUB_HOST if named is None else urlsplit(named).hostname or ""


def _allowed(path: str, runtime: Runtime, folders: Iterable[str]) -> bool:
    """Whether all that would be mounted lies in one of the folders."""
    return _below(path, folders) and (
        host_folder(path, runtime) == ROOT or _below(host_folder(path, runtime), folders)
    )


def _below(path: str, folders: Iterable[str]) -> bool:
    asked = PurePosixPath(path)
    plain = asked.is_absolute() and ".." not in asked.parts
    return plain and any(asked.is_relative_to(folder) for folder in folders)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name and not an address
        return host == "localhost"


def _not_implemented(message: str) -> Fault:
    return Fault(reason=Reason.NOT_IMPLEMENTED, message=message)


def _source_not_allowed(message: str) -> Fault:
    return Fault(reason=Reason.SOURCE_NOT_ALLOWED, message=message)
