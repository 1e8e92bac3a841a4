"""``developer`` as ``system``, for servers whose templates know no ``developer`` and drop the message or refuse it."""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages


def translate_roles(body: Body, context: Context) -> Body:
    """Rename the role where it is not known to be kept."""
    if context.profile.request.developer_role == "kept":
        return body

    def change(message: dict[str, Any]) -> dict[str, Any]:
        if message.get("role") != "developer":
            return message
        context.note("role.developer=system")
        return {**message, "role": "system"}

    return map_messages(body, change)
