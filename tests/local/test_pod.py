"""What a pod template becomes on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pumas_crds.serving_profile import BUILT_IN_DEFAULT
from pumas_local.pod import (
    Deployment,
    Place,
    Ports,
    build_environment,
    select_inherited,
    select_secret_files,
)
from pumas_operator.manifests import Settings, build_deployment
from support.models import served_model

PLACE = Place(run=Path("/data/run/tiny-0"), models=Path("/data/models"))
DEPLOYMENT = Deployment.model_validate(
    build_deployment(served_model(), BUILT_IN_DEFAULT, Settings(image="x"))
)
POD = DEPLOYMENT.spec.template.spec


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/run/pumas", "/data/run/tiny-0"),
        ("/run/pumas/key/engine-key", "/data/run/tiny-0/key/engine-key"),
        ("/models/hub/tiny.gguf", "/data/models/hub/tiny.gguf"),
        ("/run/pumas-of-others/x", "/run/pumas-of-others/x"),
        ("/weights/tiny.gguf", "/weights/tiny.gguf"),
    ],
)
def test_only_the_two_folders_lie_elsewhere(path: str, place: str) -> None:
    assert PLACE.resolve(path) == Path(place)


def test_five_variables_are_overridden_and_nothing_else() -> None:
    (server,) = POD.containers
    template = {variable.name: variable.value for variable in server.env}
    inherited = {"HOME": "/home/me", "POD_IP": "10.0.0.1"}
    built = build_environment(server, Ports(1001, 1002), PLACE, inherited)
    assert built == {
        "HOME": "/home/me",
        "POD_IP": "127.0.0.1",
        "ENGINE_PORT": "1001",
        "SUPERVISOR_PORT": "1002",
        "PUMAS_MODELS": "/data/models",
        "PUMAS_RUN": "/data/run/tiny-0",
        "PUMAS_WORKER": template["PUMAS_WORKER"],
    }


def test_what_a_container_inherits() -> None:
    environment = {
        "PATH": "/bin",
        "LLAMA_SERVER_BIN": "/opt/llama-server",
        "PYTHONPATH": "/lib/mine",
        "PYTHONWARNINGS": "error",
        "PUMAS_TOKENS_FILE": "/secret",
        "PUMAS_ENGINE": "llama-cpp-python",
    }
    assert select_inherited(environment, Path("/venv/bin/python")) == {
        "PATH": "/venv/bin:/bin",
        "LLAMA_SERVER_BIN": "/opt/llama-server",
        "PYTHONPATH": "/lib/mine",
        "PUMAS_ENGINE": "llama-cpp-python",
    }
    assert select_inherited({}, Path("/venv/bin/python")) == {"PATH": "/venv/bin"}


def test_secrets_lie_where_they_are_mounted() -> None:
    secrets = {"tiny-engine-key": {"engine-key": "sesame", "other": "not mounted"}}
    files = select_secret_files(POD, PLACE, secrets)
    assert files == {Path("/data/run/tiny-0/key/engine-key"): "sesame"}


def test_a_pod_of_two_serving_containers_is_not_half_run() -> None:
    container = {"name": "a", "command": ["true"]}
    with pytest.raises(ValidationError):
        Deployment.model_validate(
            {
                "metadata": {"name": "two"},
                "spec": {"template": {"spec": {"containers": [container, container]}}},
            }
        )
