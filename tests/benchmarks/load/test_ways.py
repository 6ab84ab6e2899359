"""The models of our router in its measurement."""

from __future__ import annotations

from pathlib import Path

from load.ways import build_manifest

from pumas_local.manifest_files import read_manifests


def test_one_model_of_each_kind_leads_to_the_provider(tmp_path: Path) -> None:
    manifest = tmp_path / "models.yaml"
    manifest.write_text(build_manifest("http://127.0.0.1:9101"))
    models = read_manifests([manifest]).models
    assert [model.metadata.name for model in models] == ["m", "e", "r"]
    places = [model.spec.endpoint for model in models]
    assert {place.root() for place in places if place is not None} == {"http://127.0.0.1:9101"}
