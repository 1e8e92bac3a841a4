"""A client's body to the body a backend understands, without I/O."""

from svir_proxy.request.pipeline import REWRITES, UpstreamRequest, rewrite_request

__all__ = ["REWRITES", "UpstreamRequest", "rewrite_request"]
