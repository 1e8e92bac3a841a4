"""The stage for tool calls written as text: reading primitives, a table of formats, and the stage itself."""

from svir_proxy.response.stages.text_calls.stage import TextCalls

__all__ = ["TextCalls"]
