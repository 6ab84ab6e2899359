"""Descriptions of fields: the docstring below each, read from the source when a CRD is generated.

pydantic can do this whenever a class is made; that costs every process of ours a tenth of a second
at its start (measured), for text that only the generator and `kubectl explain` use.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from pydantic import BaseModel


def describe_fields(model: type[BaseModel]) -> None:
    """Give `model` and all records that it holds the descriptions that stand in their source."""
    for record in _records(model, set()):
        docs = {name: doc for kind in reversed(record.__mro__) for name, doc in _docs(kind)}
        for name, field in record.model_fields.items():
            if field.description is None and name in docs:
                field.description = docs[name]
    for record in _records(model, set()):
        record.model_rebuild(force=True)


def _records(kind: object, seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """Every model in a type, innermost first."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind in seen:
            return
        seen.add(kind)
        for field in kind.model_fields.values():
            yield from _records(field.annotation, seen)
        yield kind
    else:
        for argument in getattr(kind, "__args__", ()):
            yield from _records(argument, seen)


def _docs(kind: type) -> Iterator[tuple[str, str]]:
    """Field name and docstring of one class's own body."""
    if kind is BaseModel or not issubclass(kind, BaseModel):
        return
    try:
        source = inspect.getsource(kind)
    except OSError:  # made at run time: it has no source, hence no docstrings
        return
    (body,) = ast.parse(textwrap.dedent(source)).body
    if not isinstance(body, ast.ClassDef):
        return
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
