"""The kinds of objects that the operator reads and writes, and where the API has them. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pumas_crds.vocabulary import API_VERSION


class Kind(NamedTuple):
    """One namespaced kind."""

    api_version: str
    name: str
    plural: str

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Of the collection in a namespace, of one object, or of a part of it."""
        steps = (f"namespaces/{namespace}", self.plural, name, subresource)
        return "/".join(step for step in (self.root, *steps) if step)

    @property
    def root(self) -> str:
        """Of the version of the API that has the kind."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}"

    @property
    def everywhere(self) -> str:
        """Of the collection in all namespaces."""
        return f"{self.root}/{self.plural}"


SERVED_MODEL = Kind(API_VERSION, "ServedModel", "servedmodels")
SERVING_PROFILE = Kind(API_VERSION, "ServingProfile", "servingprofiles")
SECRET = Kind("v1", "Secret", "secrets")
SERVICE = Kind("v1", "Service", "services")
DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
JOB = Kind("batch/v1", "Job", "jobs")
POD = Kind("v1", "Pod", "pods")
EVENT = Kind("v1", "Event", "events")
AUTOSCALER = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")

#: Children that are watched, in the order in which they are made. Secrets are not: their contents
#: are nobody's to list.
WATCHED_CHILDREN = (SERVICE, DISRUPTION_BUDGET, NETWORK_POLICY, DEPLOYMENT)
CHILDREN = {kind.name: kind for kind in (SECRET, *WATCHED_CHILDREN)}
