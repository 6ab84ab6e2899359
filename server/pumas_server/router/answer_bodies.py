"""The JSON of answers, as types: what the OpenAPI document says of them.

The answers themselves are written by `contract.results`, `contract.errors` and the routes; a test
holds every one of them against these types. They grow additively and are open for that reason.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, RootModel

from pumas_server.contract.bounds import U32_MAX
from pumas_server.contract.errors import Code, Outcome
from pumas_server.contract.results import FinishReason
from pumas_server.contract.words import Capability

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class TextMember(BaseModel):
    """A generated text. It may be empty."""

    kind: Literal["text"]
    text: str
    finish_reason: FinishReason


class EmbeddingsMember(BaseModel):
    """One vector for each input, in order."""

    kind: Literal["embeddings"]
    vectors: Annotated[list[Annotated[list[float], Field(min_length=1)]], Field(min_length=1)]


class ImageMember(BaseModel):
    """One image, and the number that makes it again."""

    kind: Literal["image"]
    png_base64: Annotated[str, Field(min_length=1)]
    seed: Annotated[int, Field(ge=0, le=U32_MAX)]


class RelevanceMember(BaseModel):
    """The score of one document; `index` is its position in the request."""

    index: Count
    relevance_score: float


class RelevanceScoresMember(BaseModel):
    """Documents, most relevant first."""

    kind: Literal["relevance_scores"]
    results: Annotated[list[RelevanceMember], Field(min_length=1)]
    input_tokens: Count | None = None


class ChoiceAnswer(BaseModel):
    """One of the options."""

    type: Literal["choice"]
    choice: str
    probabilities: dict[str, Probability]
    confidence: Probability


class ScoreAnswer(BaseModel):
    """A probability-weighted level index."""

    type: Literal["score"]
    score: Annotated[float, Field(ge=0)]
    legend: dict[str, str]
    probabilities: dict[str, Probability]
    confidence: Probability


class NoulAnswer(BaseModel):
    """The probability that the answer is true."""

    type: Literal["noul"]
    noul: Probability


class DecisionsMember(BaseModel):
    """Answers by the names of their questions."""

    kind: Literal["decisions"]
    answers: dict[str, ChoiceAnswer | ScoreAnswer | NoulAnswer]
    input_tokens: Count | None = None


class OperationResult(BaseModel):
    """A finite success."""

    contract_version: Literal[1]
    request_id: str
    result: TextMember | EmbeddingsMember | ImageMember | RelevanceScoresMember | DecisionsMember


class ErrorMember(BaseModel):
    """The fixed error record."""

    code: Code
    outcome: Outcome
    message: str


class ErrorBody(BaseModel):
    """The body of every error of the contract's routes."""

    contract_version: Literal[1]
    request_id: str | None
    error: ErrorMember


class StartedRecord(BaseModel):
    """The provider has accepted the stream."""

    kind: Literal["started"]
    contract_version: Literal[1]
    request_id: str
    capability: Capability
    model: str
    profile: str


class DeltaRecord(BaseModel):
    """A piece of text."""

    kind: Literal["delta"]
    request_id: str
    text: str


class CompletedRecord(BaseModel):
    """The only end that means success."""

    kind: Literal["completed"]
    request_id: str
    finish_reason: FinishReason


class StreamError(ErrorMember):
    """After the header of a stream the outcome is always unknown."""

    outcome: Literal[Outcome.UNKNOWN]


class FailedRecord(BaseModel):
    """The end of a stream that failed."""

    kind: Literal["failed"]
    request_id: str
    error: StreamError


class StreamRecord(RootModel[StartedRecord | DeltaRecord | CompletedRecord | FailedRecord]):
    """The `data` of one event of a streamed operation; `event` is its `kind`."""


class OpenAiErrorMember(BaseModel):
    """The OpenAI error record, as the router makes it."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    code: str


class OpenAiError(BaseModel):
    """The body of an error that the router makes on the OpenAI routes."""

    error: OpenAiErrorMember


class OpenAiModel(BaseModel):
    """A loaded model, as OpenAI clients expect it, and the profiles that serve it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    profiles: Annotated[list[str], Field(min_length=1)]


class OpenAiModels(BaseModel):
    """The loaded models."""

    object: Literal["list"]
    data: list[OpenAiModel]
