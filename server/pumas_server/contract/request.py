"""The envelope of a request of contract v1 (*Request grammar*), as a closed type.

`parse` takes a decoded document and returns an `Operation`, or raises `ContractError` with a
sentence that names the field. Unknown members are refused at every level; no value is coerced.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict

from pumas_server.contract.bounds import MAX_MODEL_BYTES
from pumas_server.contract.complaint import END, Complaint, explain
from pumas_server.contract.errors import invalid
from pumas_server.contract.inputs import Input
from pumas_server.contract.options import Options
from pumas_server.contract.records import BLANKS, NeverNull, Strict, no_null
from pumas_server.contract.words import Capability, Output, SemanticTask


def _identity(model: str) -> str:
    if not model.strip() or model != model.strip():
        raise Complaint("is empty or has surrounding blanks")
    if len(model.encode()) > MAX_MODEL_BYTES:
        raise Complaint(f"is {len(model.encode())} bytes; at most {MAX_MODEL_BYTES} are allowed")
    if any(c < " " or "\x7f" <= c <= "\x9f" for c in model):
        raise Complaint("holds control characters")
    return model


_CONTROLS = r"\x00-\x1f\x7f-\x9f"

#: What `_identity` wants, as far as JSON Schema can say it: it counts no bytes.
_IDENTITY: JsonDict = {
    "pattern": (f"^[^{_CONTROLS}{BLANKS}]([^{_CONTROLS}]*[^{_CONTROLS}{BLANKS}])?$"),
    "maxLength": MAX_MODEL_BYTES,
}

#: What `_options_where_required` wants, as JSON Schema says it.
_OPTIONS_FOR_AN_IMAGE: JsonDict = {
    "if": {
        "anyOf": [
            {"properties": {"output": {"const": "png_base64"}}},
            {
                "properties": {"capability": {"const": "image_generation"}},
                "required": ["capability"],
            },
        ]
    },
    "then": {"properties": {"options": {"type": "object"}}, "required": ["options"]},
}


class Operation(Strict):
    """One well-formed request of contract v1."""

    model_config = ConfigDict(json_schema_extra=_OPTIONS_FOR_AN_IMAGE)

    contract_version: Literal[1]
    request_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,128}" + END)]
    model: Annotated[str, AfterValidator(_identity), Field(json_schema_extra=_IDENTITY)]
    profile: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}" + END)] | None = None
    input: Input
    output: Annotated[Output, Field(strict=False)]
    capability: Annotated[
        Annotated[Capability, Field(strict=False)] | None, BeforeValidator(no_null), NeverNull()
    ] = None
    semantic_task: Annotated[SemanticTask, Field(strict=False)] | None = None
    options: Options | None = None
    stream: Annotated[bool | None, BeforeValidator(no_null), NeverNull()] = None

    @model_validator(mode="after")
    def _options_where_required(self) -> Self:
        # Before any model is looked at: the request could be carried out by none (decision 3).
        wants_image = self.output is Output.PNG_BASE64
        if self.options is None and (wants_image or self.capability is Capability.IMAGE_GENERATION):
            raise Complaint("needs `options` with width and height for an image")
        return self


def parse(document: dict[str, Any]) -> Operation:
    """The operation that a decoded document asks for. Raises `ContractError` (400)."""
    try:
        return Operation.model_validate(document)
    except ValidationError as error:
        raise invalid(explain(error)) from None
