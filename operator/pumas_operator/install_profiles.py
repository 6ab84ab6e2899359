"""`python -m pumas_operator.install_profiles FILE`: make a release's ServingProfiles the file's.

The chart runs it in a Job after each install, upgrade and rollback. Helm itself cannot hold these
objects: it resolves every kind of a release before the CRDs of that release exist, and a custom
resource that it takes over from an earlier release it leaves as it finds it. Here each profile is
applied (server-side, checked strictly), and then those that the release has no longer are deleted:
nothing is deleted before all is applied. Uninstalling leaves the profiles as they are, and so the
models that run by them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import yaml
from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from kubernetes.config import load_config
from urllib3.exceptions import HTTPError

from pumas_crds.vocabulary import GROUP, VERSION

Object: TypeAlias = dict[str, Any]

PLURAL = "servingprofiles"
FIELD_MANAGER = "pumas-chart"
#: An API server takes some seconds to serve what a CRD that was just made defines.
SERVED_SECONDS = 60
_NOT_FOUND = 404


class Profiles(Protocol):
    """The ServingProfiles of one release. Each call raises ApiException."""

    def apply(self, profile: Object) -> None:
        """Make it so."""

    def names(self) -> list[str]:
        """Those that are there."""

    def delete(self, name: str) -> None:
        """Delete one."""


def install(
    profiles: Profiles, wanted: list[Object], pause: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Apply, then prune; says what was done. Waits while the kind is not served yet."""
    for profile in wanted:
        _apply(profiles, profile, pause)
        yield f"applied {profile['metadata']['name']}"
    kept = {profile["metadata"]["name"] for profile in wanted}
    for name in profiles.names():
        if name not in kept:
            profiles.delete(name)
            yield f"deleted {name}"


def _apply(profiles: Profiles, profile: Object, pause: Callable[[float], None]) -> None:
    for _ in range(SERVED_SECONDS):
        try:
            return profiles.apply(profile)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise
        pause(1)
    return profiles.apply(profile)


class ClusterProfiles:
    """Those in a namespace of the cluster that have a release's labels."""

    def __init__(self, client: ApiClient, namespace: str, selector: str) -> None:
        self._api = CustomObjectsApi(client)
        self._place = (GROUP, VERSION, namespace, PLURAL)
        self._selector = selector

    def apply(self, profile: Object) -> None:
        """Server-side, over whoever else wrote the same fields; unknown ones are refused."""
        self._api.patch_namespaced_custom_object(
            *self._place,
            profile["metadata"]["name"],
            profile,
            field_manager=FIELD_MANAGER,
            field_validation="Strict",
            force=True,
            _content_type="application/apply-patch+yaml",
        )

    def names(self) -> list[str]:
        """Listed whole: a release has a handful."""
        found: Any = self._api.list_namespaced_custom_object(
            *self._place, label_selector=self._selector
        )
        return sorted(item["metadata"]["name"] for item in found["items"])

    def delete(self, name: str) -> None:
        """In the background; nothing depends on a profile."""
        self._api.delete_namespaced_custom_object(*self._place, name)


def main(arguments: list[str]) -> int:
    """Install the file's profiles; 1 and a sentence when the API server refuses one."""
    [file] = arguments
    wanted = list(yaml.safe_load_all(Path(file).read_text("utf-8")))
    load_config()  # type: ignore[no-untyped-call]
    with ApiClient() as client:
        profiles = ClusterProfiles(
            client, os.environ["PUMAS_NAMESPACE"], os.environ["PUMAS_PROFILE_SELECTOR"]
        )
        try:
            for line in install(profiles, [each for each in wanted if each]):
                print(line, flush=True)
        except ApiException as error:
            print(f"the API server refused: {_told(error)}", file=sys.stderr)
            return 1
        except HTTPError as error:
            print(f"the API server cannot be reached: {type(error).__name__}", file=sys.stderr)
            return 1
    return 0


def _told(error: ApiException) -> str:
    """The server's own sentence."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"
    return str(message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
