"""svir-proxy: many OpenAI-compatible servers in, one Chat Completions dialect out.

The words of this code base:

backend
    One configured model server: its URL, its key, its profile.
profile
    What one kind of server was observed to do, as data with evidence.
client request
    What the client asked the proxy for, read once and remembered for the way back.
upstream request
    The body that goes to the backend after the rewrites.
rewrite
    A pure function that makes a body acceptable to a backend; whatever it changed is a *note*.
chunk
    One JSON object of a stream, as an upstream or this proxy writes it.
event
    What a chunk means, in the proxy's own terms: text, a call, usage, a failure.
stage
    A small step that turns events into events: think tags, tool calls, the finish.
output
    Anything of an answer that a client can see. Role chunks, keep-alives and held-back text are not output.
"""

__version__ = "0.1.0"
