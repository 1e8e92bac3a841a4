"""Serves a GGUF with the llama.cpp server that is inside xllamacpp, in a process of its own.

Arguments: model file, API key, chat template file (optional or "": the model's own), "embeddings" (optional: for those
instead of chat). Prints the URL once the server answers; ends when its input ends, so that it never outlives the tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp

MODEL_NAME = "scripted"
SLOTS = 4
CONTEXT_PER_SLOT = 16384


def main(model: str, api_key: str, template: str = "", purpose: str = "") -> None:
    """Serves *model* on a free loopback port until standard input ends."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {MODEL_NAME}
    params.api_keys = [api_key]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_PER_SLOT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.endpoint_slots = True
    params.verbosity = 1  # errors only: log lines would mix with the URL
    if purpose == "embeddings":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_LAST
    if template:
        params.chat_template = Path(template).read_text(encoding="utf-8")
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 -- the parent reads it
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
