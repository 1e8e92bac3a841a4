"""The canonical events of an answer as small JSON objects, in the shape of the deltas that a client gets."""

from __future__ import annotations

from typing import Any

from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    ExtrasReported,
    Failed,
    Finished,
    Identified,
    LogprobsReported,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.server.inspector.veil import Veil, counted


def told(event: Event, veil: Veil) -> dict[str, Any]:
    """*event* as *veil* has it."""
    match event:
        case ContentDelta(text):
            return {"content": veil.text(text)}
        case ReasoningDelta(text):
            return {"reasoning_content": veil.text(text)}
        case RefusalDelta(text):
            return {"refusal": veil.text(text)}
        case ToolCallStarted(index, identity, name):
            return {"tool_call": {"index": index, "id": identity, "name": name}}
        case ArgumentsDelta(index, text):
            return {"tool_call": {"index": index, "arguments": veil.text(text)}}
        case Identified():
            return {"id": event.id, "model": event.model}
        case UsageReported(usage):
            return {"usage": veil.value(usage)}
        case Finished(reason):
            return {"finish_reason": reason}
        case Noted(note):
            return {"note": note}
        case LogprobsReported(content, refusal):
            return {"logprobs": f"«{counted(len(content or ()) + len(refusal or ()), 'token')}»"}
        case ExtrasReported(values):
            return {"svir": veil.value(values)}
        case Failed(error):
            return {"error": error.kind}
        case Ended():
            return {"done": True}
