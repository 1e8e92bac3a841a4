"""Call ids in the form the server takes.

Mistral takes ids of nine letters and digits only. Each id of the history is replaced by one made from it, the same in
the call and in its result; the answer's new ids are the server's own, and need no mapping back.
"""

from __future__ import annotations

import hashlib
import re
import string
from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages

_NINE: Final = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET: Final = string.ascii_letters + string.digits


def shape_call_ids(body: Body, context: Context) -> Body:
    """Replace ids that the server would refuse."""
    if context.profile.request.call_ids == "any":
        return body

    def shaped(identity: Any) -> Any:
        if not isinstance(identity, str) or _NINE.fullmatch(identity):
            return identity
        context.note("history.call_ids=shortened")
        digest = hashlib.sha256(identity.encode("utf-8", "replace")).digest()
        return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:9])

    def change(message: dict[str, Any]) -> dict[str, Any]:
        if "tool_call_id" in message:
            identity = shaped(message["tool_call_id"])
            return message if identity == message["tool_call_id"] else {**message, "tool_call_id": identity}
        calls = message.get("tool_calls")
        if not isinstance(calls, list):
            return message
        changed = [
            {**call, "id": shaped(call["id"])} if isinstance(call, dict) and "id" in call else call for call in calls
        ]
        return message if changed == calls else {**message, "tool_calls": changed}

    return map_messages(body, change)
