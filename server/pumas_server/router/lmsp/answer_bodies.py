"""The JSON of the catalogue's answers, as types: what the OpenAPI document says of them.

The answers themselves are built by `model_object`, `catalogue` and `problems`; tests hold them
against these types. They grow additively.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from pumas_server.router.lmsp.problems import ProblemCode

Count = Annotated[int, Field(ge=0)]
Modalities = Annotated[list[str], Field(min_length=1)]


class CatalogueCapabilities(BaseModel):
    """What the model can do, loaded or not."""

    chat: bool
    completion: bool
    embeddings: bool
    tools: bool
    vision: bool
    structured_output: bool
    streaming: bool


class CatalogueRuntime(BaseModel):
    """What runs the model."""

    backend: str
    device: str
    load_on_demand: bool


class LoadFailure(BaseModel):
    """Why a model is in `error`. `status` is 500 when its file or configuration is at fault."""

    type: str
    title: str
    status: Literal[500, 503]
    detail: str
    code: Literal[ProblemCode.MODEL_LOAD_FAILED]


class CatalogueModel(BaseModel):
    """A model. What is not known of it is empty, 0 or false; `aliases` name no model here."""

    id: str
    object: Literal["model"]
    display_name: str
    aliases: list[str]
    owned_by: str
    family: str
    revision: str
    status: Literal["installed", "loading", "ready", "unloading", "error"]
    capabilities: CatalogueCapabilities
    input_modalities: Modalities
    output_modalities: Modalities
    context_window: Count
    max_output_tokens: Count
    runtime: CatalogueRuntime
    error: LoadFailure | None = None


class CatalogueModels(BaseModel):
    """The models. `catalog_revision` is the same in every filtered list of one state."""

    object: Literal["list"]
    catalog_revision: Annotated[str, Field(min_length=1)]
    data: list[CatalogueModel]


class Problem(BaseModel):
    """The body of every error below `/lmsp/` (RFC 9457); `instance` is the id of the request."""

    type: str
    title: str
    status: int
    detail: str
    code: ProblemCode
    instance: str
    param: str | None = None
