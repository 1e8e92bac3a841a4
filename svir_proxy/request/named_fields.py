"""What an upstream's error says about the fields of a request: which it names, and whether it refuses them as such."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from svir_proxy.errors import ProxyError

_EXPECTED: Final = re.compile(
    r"expected (?:one of|a |an |`|')|should be|must be|supported (?:values|types|string)|valid (?:values|options)"
    r"|\buse [`'\"]|\binstead\b",
    re.IGNORECASE,
)
"""What follows tells what would do, and names no fault."""
_REFUSED: Final = re.compile(
    r"extra (?:inputs|fields|parameters|properties)|extra_forbidden|not permitted|additional propert"
    r"|(?:unsupported|unknown|unexpected|unrecognized|invalid|disallowed) (?:\w+ )?"
    r"(?:parameter|field|argument|name|key|property|option|input)"
    r"|unsupported value|unrecognized|was unexpected|cannot find field|no such field"
    r"|(?:not|n't) (?:currently |yet )?(?:be )?(?:support|allow|available|recogni[sz]ed|enabled|implemented)"
    r"|un(?:supported|available)|unknown variant|only the default",
    re.IGNORECASE,
)
_VALUE_FAULT: Final = re.compile(
    r"must be|should be|at (?:most|least)|(?:greater|less|larger|smaller|more|fewer) than|out[- ]of|in range"
    r"|valid range|exceeds|supported (?:types|values)|too (?:large|long|many|few|small|high|low)"
    r"|invalid value|invalid type|type_error|is not? a\b",
    re.IGNORECASE,
)
_ROOT: Final = re.compile(r"(?:body\.|\$\.|#?/)*([^.\[/]*)")
_BEFORE: Final = (
    r"(?:\b(?:field|parameter|param|argument|property|key|name|attribute|option)s?(?: supplied)?\b[\s:=]*"
    r"|[(=#]|(?<!\w)/|(?<![\w.])body\.|^\s*|,\s*|['\"`])['\"`]?"
)
_AFTER: Final = r"(?![\w-])(?:['\"`\])/:,.;=]|\s+(?:is|are|was|were|does|do|must|can|cannot|param)\b|\s*$)"


class Said:
    """One error's words, read for the fields of a request."""

    def __init__(self, error: ProxyError) -> None:
        self.text = f"{error.param}: {error.message}" if error.param else error.message
        """All of it."""
        self._param = error.param or ""
        self._message = error.message

    @cached_property
    def root(self) -> str:
        """The top-level field of ``param``; ``""`` without one."""
        found = _ROOT.match(self._param)
        return found[1] if found else ""

    @cached_property
    def _fault(self) -> str:
        """The message up to where it tells what would do."""
        return _EXPECTED.split(self._message, maxsplit=1)[0]

    def names(self, field: str) -> bool:
        """Whether the top-level *field* is named, as param or in the message: quoted, as a path, in camel case."""
        if self.root == field:
            return True
        words = re.escape(field).replace("_", "[ _-]?")
        # One with an underscore is no word of a sentence.
        path = rf"(?<![\w./-])(?:body\.|\$\.|#?/)?{words}(?![\w-])"
        pattern = path if "_" in field else f"{_BEFORE}{words}{_AFTER}"
        return re.search(pattern, self._fault, re.IGNORECASE) is not None

    def says(self, pattern: str) -> bool:
        """Whether *pattern* stands anywhere in it."""
        return re.search(pattern, self.text, re.IGNORECASE | re.DOTALL) is not None

    @cached_property
    def refuses(self) -> bool:
        """Whether what it names is refused whatever its value."""
        return _REFUSED.search(self._message) is not None

    @cached_property
    def blames_value(self) -> bool:
        """Whether another value of what it names would do."""
        return not self.refuses and _VALUE_FAULT.search(self._message) is not None
