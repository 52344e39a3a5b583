"""TOML tables as dataclasses: only known keys, none missing, each of the right type."""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING, fields
from typing import Any

from lmzip.errors import InputError

T = typing.TypeVar("T")

_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


class RecipeError(InputError):
    """A recipe has a key or a value that cannot be used."""


def require(condition: bool, key: str, value: object, what: str) -> None:
    """Raise RecipeError, which names the key and the value, unless a condition holds."""
    if not condition:
        raise RecipeError(f"{key} = {value!r}: {what}")


def read_table(cls: type[T], table: object, where: str) -> T:
    """Make a dataclass of a table; `where` is how a message calls the table."""
    hints = typing.get_type_hints(cls)
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    values = {}
    for key, value in as_table(table, where).items():
        require(key in known, f"{where} {key}", value, f"no such key among {', '.join(known)}")
        values[key] = _convert(value, hints[key], f"{where} {key}")
    for key, field in known.items():
        if key not in values and field.default is MISSING:
            raise RecipeError(f"{where} {key} is missing")
    try:
        return cls(**values)
    except RecipeError as error:
        raise RecipeError(f"{where} {error}") from None


def as_table(value: object, where: str) -> dict[str, Any]:
    """Return a value that must be a table."""
    require(isinstance(value, dict), where, value, "must be a table")
    return typing.cast(dict[str, Any], value)


def as_list(value: object, where: str) -> list[Any]:
    """Return a value that must be a list that is not empty."""
    require(isinstance(value, list) and bool(value), where, value, "must be a list with entries")
    return typing.cast(list[Any], value)


def _convert(value: object, hint: Any, where: str) -> Any:
    """Return a value as the type of a field: a plain type, or a tuple of one."""
    if isinstance(hint, types.GenericAlias):  # tuple[int, ...] or tuple[float, float]
        items, kinds = as_list(value, where), typing.get_args(hint)
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(items)
        require(len(items) == len(kinds), where, value, f"must have {len(kinds)} entries")
        return tuple(_convert(item, kind, where) for item, kind in zip(items, kinds, strict=True))
    if hint is float and type(value) is int:
        return float(value)
    require(type(value) is hint, where, value, f"must be {_TYPE_NAMES[hint]}")
    return value
