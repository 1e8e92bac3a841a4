"""The way to the model servers: an httpx transport with connections of its own, and bodies that can be pushed."""

from svir_proxy.server.transport.decoding import Decoder, content_decoder
from svir_proxy.server.transport.head import PostHead, post_head
from svir_proxy.server.transport.limits import TransportLimits
from svir_proxy.server.transport.pool import usual_context
from svir_proxy.server.transport.response import BodySink, UpstreamResponse
from svir_proxy.server.transport.stream import RequestStream
from svir_proxy.server.transport.transport import RESPONSE, UpstreamTransport

__all__ = [
    "RESPONSE",
    "BodySink",
    "Decoder",
    "PostHead",
    "RequestStream",
    "TransportLimits",
    "UpstreamResponse",
    "UpstreamTransport",
    "content_decoder",
    "post_head",
    "usual_context",
]
