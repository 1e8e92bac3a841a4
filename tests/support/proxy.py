"""A running proxy, and a client that asks it."""

from __future__ import annotations

from svir_proxy.cli.in_process import running_proxy, settings_for
from svir_proxy.conform.replay import ask

__all__ = ["ask", "running_proxy", "settings_for"]
