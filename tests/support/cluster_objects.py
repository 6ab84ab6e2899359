"""ServedModels and EndpointSlices as an API server gives them."""

from __future__ import annotations

from typing import Any

from pumas_crds.vocabulary import API_VERSION, MODEL_UID_LABEL

OLD, NEW = "2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"


def model_object(
    name: str = "tiny",
    *,
    uid: str = "",
    namespace: str = "team",
    created: str = OLD,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A ServedModel with what an API server adds; `spec` is camelCase."""
    if spec.get("runtime") != "external":
        spec.setdefault("source", {"http": {"url": "http://files.example/tiny.gguf"}})
    body = {
        "apiVersion": API_VERSION,
        "kind": "ServedModel",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-{name}",
            "creationTimestamp": created,
            "resourceVersion": "1",
            "generation": 1,
            "managedFields": [{"manager": "kubectl", "operation": "Apply"}],
        },
        "spec": spec,
    }
    return body | ({"status": status} if status is not None else {})


def external_object(url: str, name: str = "far", **rest: Any) -> dict[str, Any]:
    """A ServedModel of `runtime: external`."""
    return model_object(name, runtime="external", endpoint={"url": url}, **rest)


def address(ip: str, pod: str | None = "pod", /, **conditions: bool | None) -> dict[str, Any]:
    """One entry of a slice. Without conditions the slice says nothing of them."""
    entry: dict[str, Any] = {"addresses": [ip]}
    if pod is not None:
        entry["targetRef"] = {"kind": "Pod", "name": pod, "uid": f"uid-of-{pod}"}
    if conditions:
        entry["conditions"] = conditions
    return entry


def slice_object(
    *endpoints: dict[str, Any],
    model: str = "tiny",
    name: str = "",
    namespace: str = "team",
    engine: int | None = 8080,
    supervisor: int | None = 8081,
    family: str = "IPv4",
) -> dict[str, Any]:
    """An EndpointSlice of a model's Service."""
    ports = {"engine": engine, "supervisor": supervisor}
    name = name or f"{model}-abcde"
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": family,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-slice-{name}",
            "labels": {MODEL_UID_LABEL: f"uid-of-{model}"},
        },
        "endpoints": list(endpoints),
        "ports": [{"name": n, "port": p} for n, p in ports.items() if p is not None],
    }
