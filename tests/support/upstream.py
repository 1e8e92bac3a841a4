"""Moved to `svir_proxy.conform.upstream`; here until branches that are under way have followed."""

from svir_proxy.conform.upstream import Answer, Received, ScriptedUpstream, json_answer

__all__ = ["Answer", "Received", "ScriptedUpstream", "json_answer"]
