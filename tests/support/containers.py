"""The containers of a serving pod that look at a model, run in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.vocabulary import TERMINATION_LOG
from pumas_server.worker import fetch, inspect_source


@dataclass(frozen=True, slots=True)
class Looked:
    """What one of them came to."""

    code: int
    file: dict[str, Any] | None
    reason: str
    message: str


class Containers:
    """Runs them with one cache, so one after the other finds what the one before left."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.models = folder / "models"
        self._run = folder / "run"
        self._run.mkdir()
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("PUMAS_RUN", str(self._run))
        monkeypatch.setenv("PUMAS_MODELS", str(self.models))

    def inspect(self, source: dict[str, Any], **spec: Any) -> Looked:
        """The inspection Job's."""
        return self._look(inspect_source.main, source, spec)

    def fetch(self, source: dict[str, Any], **spec: Any) -> Looked:
        """The init container."""
        return self._look(fetch.main, source, spec)

    def cached(self) -> list[str]:
        """Files in the cache, without their source's own folder and what belongs to fetching."""
        files = (path.relative_to(self.models) for path in self.models.rglob("*") if path.is_file())
        return sorted("/".join(f.parts[1:]) for f in files if not f.name.startswith("."))

    def place(self) -> Path:
        """The only source's folder in the cache."""
        (place,) = self.models.iterdir()
        return place

    def _look(self, main: Any, source: dict[str, Any], spec: dict[str, Any]) -> Looked:
        told = {"alias": "tiny", "runtime": "onnxruntime", "source": source, **spec}
        self._monkeypatch.setenv("PUMAS_WORKER", json.dumps(told))
        code = main()
        result = json.loads((self._run / TERMINATION_LOG).read_text())
        error = result.get("error") or {"reason": "", "message": ""}
        message = error["message"]
        assert "127.0.0.1" not in message and "://" not in message
        assert str(self.models.parent) not in message
        return Looked(code, result.get("file"), error["reason"], message)
