"""Moved to `svir_proxy.conform.judge`; here until branches that are under way have followed."""

from svir_proxy.conform.judge import UPSTREAM_KEY, Seen, asks_for_usage, form, judge

__all__ = ["UPSTREAM_KEY", "Seen", "asks_for_usage", "form", "judge"]
