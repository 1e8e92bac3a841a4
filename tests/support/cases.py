"""Moved to `svir_proxy.conform.cases`; here until branches that are under way have followed."""

from svir_proxy.conform.cases import (
    SPLITS,
    Case,
    ModelList,
    Split,
    cut,
    expected_failures,
    load_cases,
    load_model_lists,
    profile_of,
)

__all__ = [
    "SPLITS",
    "Case",
    "ModelList",
    "Split",
    "cut",
    "expected_failures",
    "load_cases",
    "load_model_lists",
    "profile_of",
]
