"""The base of all request records: closed, strict, immutable; and unions tagged by `kind`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from pumas_server.contract.complaint import NO_ARM, Complaint, tag, unknown_field


class Strict(BaseModel):
    """A closed record: nothing unknown, nothing coerced."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    _known: ClassVar[frozenset[str]]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the names of the fields at hand."""
        super().__pydantic_init_subclass__(**kwargs)
        cls._known = frozenset(cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _closed(cls, value: Any) -> Any:
        # The first unknown field is told and the rest not read: a body of a million of them (or
        # of a million bad items: `fail_fast`) would cost gigabytes of findings otherwise.
        if isinstance(value, dict) and not value.keys() <= cls._known:
            raise unknown_field(next(name for name in value if name not in cls._known))
        return value


#: What `str.strip` takes away, as the inside of a character class that every dialect of regular
#: expressions reads alike; their own `\\s` differ.
BLANKS = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def _nonblank(text: str) -> str:
    if not text.strip():
        raise Complaint("is blank")
    return text


#: Text that says something.
Text = Annotated[
    str,
    AfterValidator(_nonblank),
    Field(json_schema_extra={"pattern": f"[^{BLANKS}]"}),
]


def no_null(value: Any) -> Any:
    """For members where absence and null differ: who writes null meant something by it."""
    if value is None:
        raise Complaint("is null; leave it out instead")
    return value


class NeverNull:
    """Takes null out of the JSON Schema of a member that may only be absent.

    `SkipJsonSchema[None]` would do the same, but makes of the member a union, whose arms pydantic
    tries one by one and names in the findings.
    """

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of the other arm."""
        arms: list[dict[str, Any]] = handler(schema)["anyOf"]
        return next(arm for arm in arms if arm.get("type") != "null")


def by_kind(*kinds: str, member: str = "kind") -> Discriminator:
    """The discriminator of a union whose arms are tagged `tag(kind)`."""
    known = frozenset(kinds)

    def tag_of(value: Any) -> str | None:
        word = value.get(member) if isinstance(value, dict) else getattr(value, member, None)
        return tag(word) if isinstance(word, str) and word in known else None

    return Discriminator(
        tag_of,
        custom_error_type=f"{NO_ARM}{member}",
        custom_error_message=", ".join(sorted(known)),
    )
