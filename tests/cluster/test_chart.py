"""What the chart renders: by default, with every value set, and for some namespaces only."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from pumas_crds.serving_profile import ServingProfile
from support.helm import ALL_VALUES, CHART, Object, Rendered, helm, of_kind, pods, render

EVERY = ("-f", str(ALL_VALUES))
SCOPED = ("--set", "watchNamespaces={team-a,team-b}")
#: The optional objects that `values-all.yaml` switches off are on in one of the others.
INSTALLS = {
    "default": (),
    "every value": EVERY,
    "namespaces": SCOPED,
    "optional": (
        *("--set", "router.autoscaling.enabled=true"),
        *("--set", "router.serviceMonitor.enabled=true"),
    ),
}


@pytest.fixture(scope="module", params=INSTALLS)
def objects(request: pytest.FixtureRequest) -> Sequence[Rendered]:
    """The chart's objects, of each install in turn."""
    return render(*INSTALLS[request.param])


@pytest.mark.parametrize("install", INSTALLS)
def test_lint(install: str) -> None:
    done = helm("lint", "--strict", str(CHART), *INSTALLS[install])
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout, done.stdout


def test_every_template_renders_something_somewhere() -> None:
    rendered = {each.template for arguments in INSTALLS.values() for each in render(*arguments)}
    there = {
        str(path.relative_to(CHART / "templates")) for path in (CHART / "templates").rglob("*.yaml")
    }
    assert rendered == there


def test_one_object_a_file(objects: Sequence[Rendered]) -> None:
    # Beside the CRDs, only what is there once for each namespace comes several times.
    count = Counter(each.template for each in objects)
    assert {
        name
        for name, number in count.items()
        if number > 1 and name != "crds.yaml" and "/watched-" not in name
    } == set()
    for template in count:
        assert len({each.kind for each in objects if each.template == template}) == 1, template


def test_names_are_unique(objects: Sequence[Rendered]) -> None:
    count = Counter((each.kind, each.namespace, each.name) for each in objects)
    assert [key for key, number in count.items() if number > 1] == []


def test_objects_say_what_they_belong_to(objects: Sequence[Rendered]) -> None:
    for each in objects:
        labels = each.object["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "pumas-serving", each
        assert labels["app.kubernetes.io/managed-by"] == "Helm", each
        assert all(isinstance(value, str) and len(value) <= 63 for value in labels.values())


def test_a_long_release_name_still_fits() -> None:
    for each in render(release="a" * 53):
        assert each.kind == "CustomResourceDefinition" or len(each.name) <= 63, each.name


def test_nothing_is_outside_the_namespaces_it_was_given() -> None:
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    for each in render(*SCOPED):
        watched = "/watched-" in each.template
        expected = {"team-a", "team-b"} if watched else {"pumas-system"}
        assert each.kind == "CustomResourceDefinition" or each.kind not in cluster_wide
        assert each.kind in cluster_wide or each.namespace in expected, each


def test_selectors_find_the_pods(objects: Sequence[Rendered]) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(objects).items()}
    checked = 0
    for each in objects:
        for selector in _selectors(each):
            found = [name for name, those in labels.items() if selector.items() <= those.items()]
            assert found == [each.name], each
            checked += 1
    assert checked >= 8


def test_roles_and_accounts_exist(objects: Sequence[Rendered]) -> None:
    accounts = of_kind(objects, "ServiceAccount")
    there = {(each.kind, each.namespace, each.name) for each in objects}
    for pod in pods(objects).values():
        assert pod["spec"]["serviceAccountName"] in accounts
        assert pod["spec"]["automountServiceAccountToken"] is True
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())
    for each in objects:
        if each.kind in ("RoleBinding", "ClusterRoleBinding"):
            role = each.object["roleRef"]
            assert (role["kind"], each.namespace, role["name"]) in there
            [subject] = each.object["subjects"]
            assert ("ServiceAccount", subject["namespace"], subject["name"]) in there


def test_the_service_leads_to_the_router(objects: Sequence[Rendered]) -> None:
    [service] = of_kind(objects, "Service").values()
    [port] = service["spec"]["ports"]
    router = pods(objects)[service["metadata"]["name"]]["spec"]["containers"][0]
    assert port["targetPort"] in [each["name"] for each in router["ports"]]


# CRDs, key, profiles


def test_crds_are_upgraded_and_never_removed() -> None:
    found = of_kind(render(), "CustomResourceDefinition")
    assert sorted(found) == ["servedmodels.serving.pumas.dev", "servingprofiles.serving.pumas.dev"]
    for crd in found.values():
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert not (CHART / "crds").exists(), "Helm would install these once and never upgrade them"


def test_crds_can_be_left_to_others() -> None:
    assert of_kind(render("--set", "crds.install=false"), "CustomResourceDefinition") == {}


def test_the_key_is_random_and_kept() -> None:
    # Not the same arguments, since what was rendered is kept.
    first, second = (of_kind(render(*more), "Secret")["pumas-key"] for more in ((), SCOPED))
    key = base64.b64decode(first["data"]["key"])
    assert len(key) == 64
    assert first["data"] != second["data"]
    assert first["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert first["immutable"] is True


def test_a_key_of_the_administrators() -> None:
    assert of_kind(render("--set", "keySecret.existingName=ours"), "Secret") == {}


def test_profiles_are_applied_by_a_job_that_helm_waits_for() -> None:
    [job] = of_kind(render(), "Job").values()
    assert job["metadata"]["annotations"] == {
        "helm.sh/hook": "post-install,post-upgrade,post-rollback",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    [container] = job["spec"]["template"]["spec"]["containers"]
    *command, file = container["command"]
    assert command == ["python", "-m", "pumas_operator.install_profiles"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "profiles"]
    assert file == f"{mount['mountPath']}/profiles.yaml"
    # Not of the release: what models run by stays when the release goes.
    assert of_kind(render(), "ServingProfile") == {}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [((), ["cpu", "default", "nvidia"]), (EVERY, ["123", "default", "nvidia"])],
)
def test_profiles_are_valid_and_found_again(arguments: tuple[str, ...], names: list[str]) -> None:
    found = profiles(render(*arguments))
    assert sorted(each["metadata"]["name"] for each in found) == names
    [job] = of_kind(render(*arguments), "Job").values()
    told = {
        each["name"]: _value(each)
        for each in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    selector = dict(each.split("=") for each in told["PUMAS_PROFILE_SELECTOR"].split(","))
    for each in found:
        ServingProfile.model_validate(each)
        assert each["metadata"]["namespace"] == "pumas-system"
        assert selector.items() <= each["metadata"]["labels"].items()


def test_a_profile_is_what_the_values_say() -> None:
    found = {each["metadata"]["name"]: each["spec"] for each in profiles(render(*EVERY))}
    assert found["default"] == {"engine": {"contextTokens": 4096}, "drainSeconds": 60}
    assert profiles(render("--set", "profiles=null")) == []


def profiles(objects: Sequence[Rendered]) -> list[Object]:
    """The ServingProfiles in the Job's file."""
    [mounted] = of_kind(objects, "ConfigMap").values()
    documents = yaml.safe_load_all(mounted["data"]["profiles.yaml"])
    return [each for each in documents if each]


def test_a_cluster_that_is_too_old_is_refused() -> None:
    done = helm("template", "pumas", str(CHART), "--kube-version", "1.28.0")
    assert done.returncode != 0 and "kubeVersion" in done.stderr


def _value(variable: dict[str, Any]) -> str:
    if "valueFrom" in variable:
        path: str = variable["valueFrom"]["fieldRef"]["fieldPath"]
        return path
    value = variable["value"]
    assert isinstance(value, str)
    return value


def _selectors(each: Rendered) -> list[dict[str, str]]:
    spec = each.object.get("spec", {})
    match each.kind:
        case "Service":
            return [spec["selector"]]
        case "PodDisruptionBudget":
            return [spec["selector"]["matchLabels"]]
        case "NetworkPolicy":
            return [spec["podSelector"]["matchLabels"]]
        case "Deployment":
            spread = spec["template"]["spec"]["topologySpreadConstraints"]
            return [
                spec["selector"]["matchLabels"],
                *(constraint["labelSelector"]["matchLabels"] for constraint in spread),
            ]
        case _:
            return []
