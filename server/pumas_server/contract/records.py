"""The base of all request records: closed, strict, immutable; and unions tagged by `kind`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, model_validator

from pumas_server.contract.complaint import Complaint, tag, unknown_field


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


def _nonblank(text: str) -> str:
    if not text.strip():
        raise Complaint("is blank")
    return text


#: Text that says something.
Text = Annotated[str, AfterValidator(_nonblank)]


def no_null(value: Any) -> Any:
    """For members where absence and null differ: who writes null meant something by it."""
    if value is None:
        raise Complaint("is null; leave it out instead")
    return value


def by_kind(*kinds: str, member: str = "kind") -> Discriminator:
    """The discriminator of a union whose arms are tagged `tag(kind)`."""
    known = frozenset(kinds)

    def tag_of(value: Any) -> str | None:
        word = value.get(member) if isinstance(value, dict) else getattr(value, member, None)
        return tag(word) if isinstance(word, str) and word in known else None

    return Discriminator(
        tag_of,
        custom_error_type="kind",
        custom_error_message=f"needs a `{member}`, one of: {', '.join(sorted(known))}",
    )
