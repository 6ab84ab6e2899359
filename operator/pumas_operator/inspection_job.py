"""The Job that looks at a model's file before an accelerator is asked for. Pure.

Its name holds a digest of what the verdict depends on: source, projector, digest, task, runtime. So
another source is another Job, and a source whose verdict is known is not inspected again. The
verdict is its container's termination message; the Job may be collected as soon as that was read.
"""

from __future__ import annotations

from pumas_crds.engine import IMAGE_SETTINGS, Engine
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import (
    INSPECTION,
    INSPECTOR_NAME,
    MODEL_NAME_ANNOTATION,
    SPEC_HASH_ANNOTATION,
)
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator import names
from pumas_operator.labels import Object, build_labels, build_metadata
from pumas_operator.manifests import Settings, select_image, spec_hash
from pumas_operator.pod_template import build_inspecting_pod

#: A digest over a large file on a volume takes this long at the most.
DEADLINE_SECONDS = 3600
#: How long the result is there to be read; after a passing fault, how long until the next attempt.
KEPT_SECONDS = 120
RETRIES = 2


def inspection_hash(model: ServedModel, load_request: str = "") -> str:
    """Which inspection the model needs; empty when none, since there is no file of ours.

    A load request that is heeded is one of the things that it is made for: another is another.
    """
    spec = model.spec
    if spec.source is None:
        return ""
    asked = spec.model_dump(
        mode="json", by_alias=True, include={"source", "sha256", "task", "runtime"}
    )
    if spec.projector is not None:
        asked["projector"] = spec.projector.model_dump(mode="json", by_alias=True)
    if (drawing := _image_settings(model)).gives(IMAGE_SETTINGS):
        asked["engine"] = drawing.model_dump(mode="json", by_alias=True, exclude_none=True)
    return spec_hash(asked | ({"loadRequest": load_request} if load_request else {}))


def build_inspection_job(
    model: ServedModel, profile: ServingProfile, settings: Settings, load_request: str = ""
) -> Object:
    """The Job. `ValueError` for a model without a source."""
    spec = model.spec
    if spec.source is None:
        raise ValueError(f"{model.metadata.name} has no source that could be inspected")
    worker = WorkerSpec(
        alias=model.alias,
        runtime=spec.runtime,
        task=spec.task,
        source=spec.source,
        projector=spec.projector,
        sha256=spec.sha256,
        engine=_image_settings(model),
    )
    labels = build_labels(model, INSPECTOR_NAME, INSPECTION)
    image = select_image(spec.runtime, profile.spec, settings)
    own = {MODEL_NAME_ANNOTATION: model.metadata.name}
    job: Object = {
        "backoffLimit": RETRIES,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {
            "metadata": {
                "labels": profile.spec.pod_labels | labels,
                "annotations": profile.spec.pod_annotations | own,
            },
            "spec": build_inspecting_pod(worker, profile.spec, image),
        },
    }
    name = names.inspection_job(model.metadata.name, inspection_hash(model, load_request))
    metadata = build_metadata(name, model, labels)
    # A Job cannot be changed: one that looks in another way, by another image, is another.
    metadata["annotations"] = own | {SPEC_HASH_ANNOTATION: spec_hash(job)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}


def _image_settings(model: ServedModel) -> Engine:
    """Of the engine's settings those that not every model has a use for."""
    given = model.spec.engine or Engine()
    return Engine(**{name: getattr(given, name) for name in IMAGE_SETTINGS})
