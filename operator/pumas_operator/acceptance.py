"""Refusals that need no look at a file: what this release or the profile rules out."""

from __future__ import annotations

from ipaddress import ip_address

from pumas_crds.facts import Fault
from pumas_crds.served_model import ExternalEndpoint, ServedModelSpec
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import BUILT_RUNTIMES, Reason


def build_refusal(spec: ServedModelSpec, profile: ServingProfile, *, local: bool) -> Fault | None:
    """Why the model is not run at all, or None.

    `local`: the router runs on the user's own machine, which is theirs to address; in a cluster
    an address says nothing about who owns it, so there only the profile's list counts.
    """
    if spec.runtime not in BUILT_RUNTIMES:
        return Fault(
            reason=Reason.NOT_IMPLEMENTED,
            message=f"runtime {spec.runtime} is not implemented in this release.",
        )
    if spec.endpoint is not None and not _allowed(spec.endpoint, profile, local):
        return Fault(
            reason=Reason.ENDPOINT_NOT_ALLOWED,
            message="The host of endpoint.url is not one of allowedEndpointHosts of the profile"
            f" {profile.metadata.name}.",
        )
    return None


def _allowed(endpoint: ExternalEndpoint, profile: ServingProfile, local: bool) -> bool:
    allowed = {host.lower() for host in profile.spec.allowed_endpoint_hosts}
    host = endpoint.host().lower()
    return host in allowed or (local and (not allowed or _is_loopback(host)))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name and not an address
        return host == "localhost"
