"""Which capability a request is (*Request grammar*, notes §3).

Total and deterministic: every well-formed operation and every set of descriptors give one
descriptor or one `ContractError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pumas_server.capabilities.rows import ROW_OF, ROWS, Row
from pumas_server.contract.descriptors import (
    Available,
    Descriptor,
    Unavailable,
    UnavailableReason,
)
from pumas_server.contract.errors import Code, ContractError, invalid
from pumas_server.contract.request import Operation

#: Reasons that a runtime which starts, or answers again, takes away.
PASSING_REASONS = frozenset(
    {UnavailableReason.RUNTIME_UNAVAILABLE, UnavailableReason.UNKNOWN_MODEL_TASK}
)


def resolve(operation: Operation, descriptors: Sequence[Descriptor]) -> Descriptor:
    """The one descriptor that carries out `operation`. Raises `ContractError`.

    A named capability that disagrees with the rest of the request is a malformed request (400);
    without a name the same disagreement means that the model has no such operation (422). A match
    that is unavailable keeps its own reason (503); several available ones are ambiguous (409).
    Options never choose: of another kind than the resolved capability's, they are malformed (400).
    """
    by_capability = {d.capability: d for d in descriptors}
    if operation.capability is not None:
        _agree(ROW_OF[operation.capability], operation)
        named = by_capability.get(operation.capability)
        candidates = [named] if named is not None else []
    else:
        # A capability that the model does not mean to offer is no candidate: were it one, every
        # wrong request would be called unavailable, and wait for a day that never comes.
        candidates = [
            descriptor
            for row in ROWS
            if (descriptor := by_capability.get(row.capability)) is not None
            and _matches(row, operation)
            and not _mismatched(descriptor)
        ]
    available = [d for d in candidates if isinstance(d.availability, Available)]
    carrying = [d for d in available if operation.input.modalities() <= {*d.input_modalities}]
    if not candidates or (available and not carrying):
        raise _unsupported(operation, descriptors)
    if not available:
        raise _unavailable(candidates)
    if len(carrying) > 1:
        names = ", ".join(d.capability for d in carrying)
        raise ContractError(
            Code.AMBIGUOUS_OPERATION,
            f"several capabilities carry out this request; name one as `capability`: {names}",
        )
    _agree_on_options(ROW_OF[carrying[0].capability], operation)
    _within_bounds(operation, carrying[0])
    return carrying[0]


def _named(row: Row, operation: Operation) -> bool:
    return operation.capability is row.capability or operation.semantic_task is row.semantic_task


def _takes(row: Row, operation: Operation) -> bool:
    return row.accepts(operation.input.format(), named=_named(row, operation))


def _matches(row: Row, operation: Operation) -> bool:
    return (
        _takes(row, operation)
        and operation.output in row.output_formats
        and operation.semantic_task in (None, row.semantic_task)
        and (row.streams or not operation.stream)
    )


def _mismatched(descriptor: Descriptor) -> bool:
    availability = descriptor.availability
    return (
        isinstance(availability, Unavailable)
        and availability.reason is UnavailableReason.MODEL_TASK_MISMATCH
    )


def _agree(row: Row, operation: Operation) -> None:
    """Raise unless the named capability and the rest of the request agree."""
    name = f"capability {row.capability}"
    if not _takes(row, operation):
        raise invalid(
            f"{name} does not take {_input(operation)}; it takes {_words(row.input_formats)}"
        )
    if operation.output not in row.output_formats:
        raise invalid(
            f"{name} does not give {operation.output}; it gives {_words(row.output_formats)}"
        )
    if operation.semantic_task not in (None, row.semantic_task):
        raise invalid(f"the semantic_task of {name} is {row.semantic_task}")
    _agree_on_options(row, operation)
    if operation.stream and not row.streams:
        raise invalid(f"`stream` is for text generation; {name} does not stream")


def _agree_on_options(row: Row, operation: Operation) -> None:
    if operation.options is not None and operation.options.kind != row.options:
        raise invalid(f"the options of capability {row.capability} are of kind {row.options}")


def _unsupported(operation: Operation, descriptors: Sequence[Descriptor]) -> ContractError:
    return ContractError(
        Code.UNSUPPORTED_MODALITY,
        f"this model has no operation from {_input(operation)} to {operation.output}"
        f"{_narrowing(operation)}; {_offer(descriptors)}",
    )


def _unavailable(candidates: Sequence[Descriptor]) -> ContractError:
    found = [
        (d.capability, d.availability.reason)
        for d in candidates
        if isinstance(d.availability, Unavailable)
    ]
    told = "; ".join(f"{capability}: {reason}" for capability, reason in found)
    return ContractError(
        Code.CAPABILITY_UNAVAILABLE,
        f"not available now ({told})",
        lasting=not any(reason in PASSING_REASONS for _, reason in found),
    )


def _input(operation: Operation) -> str:
    kind = operation.input.kind
    media = sorted(operation.input.modalities() - {"text", kind})
    return kind + (f" with {' and '.join(media)}" if media else "")


def _narrowing(operation: Operation) -> str:
    if operation.semantic_task is not None:
        return f" with semantic_task {operation.semantic_task}"
    return " as a stream" if operation.stream else ""


def _offer(descriptors: Sequence[Descriptor]) -> str:
    """What each available capability accepts."""
    offers = [
        f"{d.capability} takes {_words(d.input_formats)} (modalities: "
        f"{_words(d.input_modalities)}) and gives {_words(d.output_formats)}"
        for d in descriptors
        if isinstance(d.availability, Available)
    ]
    return "; ".join(offers) if offers else "none of its capabilities is available now"


def _words(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


def _within_bounds(operation: Operation, descriptor: Descriptor) -> None:
    """Refuse what is over the descriptor's bounds: an option, or a measure of the input's text.

    Bounds of media are the contract's own and were kept before any model was looked at.
    """
    measured = operation.input.measures()
    for bound in descriptor.option_bounds:
        value = getattr(operation.options, bound.option, None)
        what = f"`options.{bound.option}`"
        if value is None and bound.option in measured:
            value, what = measured[bound.option], f"{bound.option} of `input`"
        if value is not None and not bound.minimum <= value <= bound.maximum:
            raise invalid(
                f"{what} is {value}; {descriptor.capability} of this model"
                f" allows {bound.minimum} to {bound.maximum}"
            )
