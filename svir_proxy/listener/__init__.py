"""Clients' connections: an HTTP/1.1 server for ASGI applications, run by uvicorn's.

uvicorn keeps the sockets, the signals, the lifespan and the workers; what it would do per request and per message is
done here at a fraction of its price, and with ends to everything a client may draw out.
"""

from svir_proxy.listener.connection import ClientConnection
from svir_proxy.listener.limits import ClientLimits

__all__ = ["ClientConnection", "ClientLimits"]
