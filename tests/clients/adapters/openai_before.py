"""The major version of the official SDK for Python before the one that is installed: what it does is the same."""

from __future__ import annotations

from dataclasses import replace

from tests.clients.adapters import openai_python

CLIENT = replace(openai_python.CLIENT, name="openai-before", runs="before")
