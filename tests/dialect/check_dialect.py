"""Moved to `svir_proxy.conform.dialect`; here until branches that are under way have followed."""

from svir_proxy.conform.dialect import (
    check_completion,
    check_error,
    check_model,
    check_models,
    check_stream,
    summarize,
    summarize_completion,
)

__all__ = [
    "check_completion",
    "check_error",
    "check_model",
    "check_models",
    "check_stream",
    "summarize",
    "summarize_completion",
]
