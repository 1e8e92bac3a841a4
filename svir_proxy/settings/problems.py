"""What is wrong with a configuration, one line a problem: ``path: what is wrong; what to do``.

Pydantic's errors are made into lines here and nowhere else. The value at fault is never part of a line: it may be a
secret.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Problem = tuple[str, str]
"""A path such as ``backends[0].base_url`` and a text."""

Step = str | int

_SEVERAL: Final = "svir_problems"
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]")
_WORDS: Final = {
    "missing": "is missing; set it",
    "string_type": "must be text; put it in quotes",
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping of settings",
}


class SettingsError(ValueError):
    """A configuration cannot be used. ``problems`` holds everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(dict.fromkeys(problems))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """One line a problem."""
        return [f"{path}: {text}" for path, text in self.problems]


def several(problems: Sequence[Problem], up: int = 0) -> PydanticCustomError:
    """An error for a validator to raise that finds more than one thing, or one somewhere else.

    The paths begin at the field that the validator belongs to, or *up* steps above it; ``""`` is the place itself.
    """
    return PydanticCustomError(_SEVERAL, "has problems", {"problems": list(problems), "up": up})


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Pydantic's *error* about *model*, in words."""
    found: list[Problem] = []
    for detail in error.errors(include_url=False, include_input=False):
        loc = detail["loc"]
        if detail["type"] == _SEVERAL:
            at = dotted(loc[: len(loc) - detail["ctx"]["up"]])
            found += [(join(at, path), text) for path, text in detail["ctx"]["problems"]]
        elif detail["type"] == "extra_forbidden":
            found.append(_unknown_key(loc, model))
        elif detail["type"] == "value_error":
            found.append((dotted(loc), str(detail["ctx"]["error"])))
        else:
            found.append((dotted(loc), _WORDS.get(detail["type"]) or in_words(detail["msg"])))
    return found


def unknown_key(path: str, model: type[BaseModel]) -> str | None:
    """What to say of a dotted *path* whose last step is no setting of *model*; None where it is one."""
    steps: list[Step] = [int(step[1:-1]) if step.startswith("[") else step for step in _STEP.findall(path)]
    part = _model_at(model, steps[:-1]) if steps else None
    if part is None or not isinstance(steps[-1], str) or steps[-1] in part.model_fields:
        return None
    return suggest(steps[-1], part.model_fields)


def suggest(word: str, known: Iterable[str]) -> str:
    """What to say of a *word* that is none of the *known* ones."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"is unknown; did you mean {near[0]}?" if near else f"is unknown; known are {', '.join(known)}"


def in_words(message: str) -> str:
    """Pydantic's *message* in the voice of the other lines."""
    if message == "Field required":
        return _WORDS["missing"]
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def dotted(loc: Iterable[Step]) -> str:
    """``("backends", 0, "name")`` as ``backends[0].name``."""
    path = ""
    for step in loc:
        path = join(path, f"[{step}]" if isinstance(step, int) else step)
    return path


def join(path: str, step: str) -> str:
    """A dotted *path* and what follows it."""
    return path + step if not path or not step or step.startswith("[") else f"{path}.{step}"


def _unknown_key(loc: tuple[Step, ...], model: type[BaseModel]) -> Problem:
    *parents, word = loc
    part = _model_at(model, parents)
    known = list(part.model_fields) if part else []
    if loc[:2] == ("auth", "keys") and not difflib.get_close_matches(str(word), known, n=1):
        return dotted(parents), f"has an unknown setting; known are {', '.join(known)}"
    return dotted(loc), suggest(str(word), known)


def _model_at(model: type[BaseModel], steps: Iterable[Step]) -> type[BaseModel] | None:
    at: type[BaseModel] | None = model
    for step in steps:
        if isinstance(step, int):
            continue
        field = at.model_fields.get(step) if at else None
        at = _model_in(field.annotation) if field else None
    return at


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner))), None)
