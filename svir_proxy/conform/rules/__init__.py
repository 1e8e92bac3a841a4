"""The dialect's rules, by area: each says what it demands, and finds in the answers where it was kept or broken."""

from typing import Final

from svir_proxy.conform.rules.answers import ANSWERS
from svir_proxy.conform.rules.connection import CONNECTION
from svir_proxy.conform.rules.errors import ERRORS
from svir_proxy.conform.rules.formats import FORMATS
from svir_proxy.conform.rules.models import MODELS
from svir_proxy.conform.rules.parameters import PARAMETERS
from svir_proxy.conform.rules.reasoning import REASONING
from svir_proxy.conform.rules.rule import Rule
from svir_proxy.conform.rules.streams import STREAMS
from svir_proxy.conform.rules.tool_calls import TOOL_CALLS
from svir_proxy.conform.rules.usage import USAGE

RULES: Final[tuple[Rule, ...]] = (
    *ANSWERS, *STREAMS, *REASONING, *TOOL_CALLS, *FORMATS, *USAGE, *PARAMETERS, *ERRORS, *MODELS, *CONNECTION,
)  # fmt: skip
"""All rules, in the order they are reported."""

__all__ = ["RULES", "Rule"]
