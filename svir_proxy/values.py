"""Values: objects that never change once they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def value(cls: type[_T]) -> type[_T]:
    """A dataclass that is frozen to the type checker, and made in half the time of one that is frozen at run time."""
    return dataclass(slots=True)(cls)
