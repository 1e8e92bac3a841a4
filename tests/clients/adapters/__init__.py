"""One file per client: its description, and how it does a job. A new one is a file here and a name in this list."""

from __future__ import annotations

from typing import Final

from tests.clients.adapters import ai_sdk, langchain, litellm, openai_before, openai_node, openai_python, pydantic_ai
from tests.clients.client import Client

CLIENTS: Final[tuple[Client, ...]] = (
    openai_python.CLIENT,
    openai_before.CLIENT,
    openai_node.CLIENT,
    ai_sdk.CLIENT,
    langchain.CLIENT,
    litellm.CLIENT,
    pydantic_ai.CLIENT,
)
