"""The server that ``probe``, ``conform`` and ``record`` ask, as their command line names it."""

from __future__ import annotations

import os
import shutil
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from svir_proxy.conform.client import Client


class NotAskedError(Exception):
    """The server cannot be asked; the message says why, what to do, and nothing that is secret."""


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add how a server is reached: with which key, and whom to trust."""
    parser.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the server's key")
    parser.add_argument("--ca-file", metavar="FILE", help="a PEM file with the authority that signed its certificate")


def root_of(url: str) -> str:
    """The server's address without ``/v1``; NotAskedError where *url* is none."""
    from svir_proxy.settings.base_url import normalize_base_url  # noqa: PLC0415 --help need not import pydantic

    try:
        return normalize_base_url(url, key_goes="in the variable that --api-key-env names")
    except ValueError as exc:
        raise NotAskedError(f"URL {exc}") from None


def key_in(variable: str | None) -> str:
    """The key that an environment variable holds, "" without one; NotAskedError where no header can carry it."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()  # as a file that was read leaves it
    if not key:
        raise NotAskedError(f"--api-key-env: the environment variable {variable} is not set, or empty")
    if not (key.isascii() and key.isprintable()):
        raise NotAskedError(f"--api-key-env: the environment variable {variable} holds what no header can carry")
    return key


def trust(ca_file: str | None) -> ssl.SSLContext | bool:
    """Whom to trust: the authorities in a file, or the usual ones; NotAskedError where the file has none."""
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as exc:  # SSLError is one
        raise NotAskedError(f"--ca-file {ca_file}: cannot be read as PEM: {exc.strerror or exc}") from None


def model_of(client: Client, named: str | None, *, keyed: bool) -> str:
    """The model to ask for: the one that is *named*, else the first that *client*'s server lists and that may chat.

    Raises:
        NotAskedError: There is no server, it wants another key, or it lists no model.
    """
    from svir_proxy.conform.exchange import Request  # noqa: PLC0415 - as in root_of
    from svir_proxy.conform.questions import MODELS  # noqa: PLC0415 - as in root_of
    from svir_proxy.conform.session import chat_models  # noqa: PLC0415 - as in root_of

    listed = client.ask(Request(MODELS))
    if listed.status is None:
        hint = "; name the authority that signed it with --ca-file" if "CERTIFICATE" in listed.failure else ""
        raise NotAskedError(f"{client.root} cannot be asked: {listed.failure}{hint}")
    if listed.status in (401, 403):
        why = "this key" if keyed else "to be asked without a key: give --api-key-env"
        raise NotAskedError(f"{client.root} refuses {why} (status {listed.status})")
    model = named or next(iter(chat_models(listed)), "")
    if not model:
        raise NotAskedError(f"{client.root} lists no model (status {listed.status}): name one with --model")
    return model


def columns(most: int) -> int:
    """How wide a report may be: as the terminal, or COLUMNS, says, within reason; *most* where there is neither."""
    return min(max(shutil.get_terminal_size((most, 24)).columns, 60), most)
