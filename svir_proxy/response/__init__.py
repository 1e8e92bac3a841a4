"""Upstream bytes to canonical events to client bytes, without I/O."""
