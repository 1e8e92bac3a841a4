"""What is asked, in this order: first what the rest leans on, last what costs most."""

from typing import Final

from svir_proxy.probe.dialogue import Question
from svir_proxy.probe.questions.errors import ABOUT_ERRORS
from svir_proxy.probe.questions.fields import ABOUT_FIELDS
from svir_proxy.probe.questions.formats import ABOUT_FORMATS
from svir_proxy.probe.questions.history import ABOUT_HISTORY
from svir_proxy.probe.questions.leaving import ABOUT_LEAVING
from svir_proxy.probe.questions.messages import ABOUT_MESSAGES
from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.probe.questions.parts import ABOUT_PARTS
from svir_proxy.probe.questions.tools import ABOUT_TOOLS

QUESTIONS: Final[tuple[Question, ...]] = (
    *OPENING,
    *ABOUT_TOOLS,
    *ABOUT_FORMATS,
    *ABOUT_MESSAGES,
    *ABOUT_HISTORY,
    *ABOUT_FIELDS,
    *ABOUT_PARTS,
    *ABOUT_LEAVING,
    *ABOUT_ERRORS,
)

__all__ = ["QUESTIONS"]
