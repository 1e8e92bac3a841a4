"""Discovery against scripted servers on loopback ports; the profiles that are looked for name exactly those ports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from svir_proxy.profiles import Profile
from svir_proxy.server import discovery
from svir_proxy.server.discovery import Found, as_backends, builtin_profiles, discover, in_words, usual_ports

_LIST = '{"object":"list","data":[{"id":"m1","owned_by":"%s"}]}'


def _answer(body: str = "", status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}connection: close\r\n\r\n{body}".encode()


class Server:
    """Answers each path with the bytes that *answers* has for it, other paths with 404, None with silence."""

    def __init__(self, answers: dict[str, bytes | None]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            assert method == "GET"
            self.asked.append(path)
            answer = self.answers.get(path, _answer("not here", "404 Not Found"))
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def running(*servers: Server) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for server in servers:
            listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
            await stack.enter_async_context(listener)
            server.port = listener.sockets[0].getsockname()[1]
        yield


def _profile(name: str, *ports: int, signatures: list[dict[str, Any]] | None = None) -> Profile:
    return Profile.model_validate(
        {
            "name": name,
            "server": name.title(),
            "observed": [{"source": "run"}],
            "discovery": {"ports": ports, "signatures": signatures or []},
        }
    )


_OWNED = {"path": "/v1/models", "body": '"owned_by":"mine"'}


@pytest.mark.parametrize(
    ("answers", "signature", "found"),
    [
        ({"/v1/models": _answer(_LIST % "mine")}, _OWNED, ("ollama", ("m1",), False)),
        ({"/v1/models": _answer(_LIST % "other")}, _OWNED, ("generic", ("m1",), False)),
        ({"/": _answer("Mine is running")}, {"path": "/", "body": "^Mine"}, ("ollama", (), False)),
        (
            {"/health": _answer("{}", headers="Server: mine/1\r\n")},
            {"path": "/health", "headers": {"server": "^mine/"}},
            ("ollama", (), False),
        ),
        (
            {"/health": _answer("ok", headers="Server: other\r\n"), "/v1/models": _answer(_LIST % "")},
            {"path": "/health", "body": "ok", "headers": {"server": "^mine/"}},
            ("generic", ("m1",), False),
        ),
        (
            {"/health": _answer("Loading", "503 Unavailable"), "/v1/models": _answer("Loading", "503 Unavailable")},
            {"path": "/health", "body": "Loading"},
            ("ollama", (), False),
        ),
        (
            {"/": _answer("Mine"), "/v1/models": _answer("no", "401 Unauthorized")},
            {"path": "/", "body": "Mine"},
            ("ollama", (), True),
        ),
        ({"/": _answer("Mine"), "/v1/models": None}, {"path": "/", "body": "Mine"}, ("ollama", (), False)),
        ({"/v1/models": _answer('{"object":"list","data":null}')}, _OWNED, ("generic", (), False)),
        ({"/v1/models": _answer('{"data":[{"id":"a"},{"id":7},"x",{}]}')}, _OWNED, ("generic", ("a",), False)),
        ({"/v1/models": _answer('{"data":{"id":"a"}}')}, _OWNED, None),
        ({"/v1/models": _answer('{"error":"Unexpected endpoint"}')}, _OWNED, None),
        ({"/v1/models": _answer("<html>")}, _OWNED, None),
        ({"/v1/models": _answer("[]")}, _OWNED, None),
        ({"/v1/models": _answer(_LIST % "x", "500 Oops")}, _OWNED, None),
        (
            {"/v1/models": _answer("", "301 Moved", "location: /v2/models\r\n"), "/v2/models": _answer(_LIST % "")},
            _OWNED,
            None,
        ),
        ({"/v1/models": b"SSH-2.0-OpenSSH\r\n"}, _OWNED, None),
        ({"/v1/models": b""}, _OWNED, None),
    ],
)
async def test_what_a_server_is(
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, bytes | None],
    signature: dict[str, Any],
    found: tuple[str, tuple[str, ...], bool] | None,
) -> None:
    if None in answers.values():
        monkeypatch.setattr(discovery, "TOTAL_SECONDS", 0.3)
    server = Server(answers)
    async with running(server):
        result = await discover([_profile("generic"), _profile("ollama", server.port, signatures=[signature])])
    told = [(each.profile, each.models, each.needs_key) for each in result]
    assert told == ([] if found is None else [found])
    assert all(each.root == f"http://127.0.0.1:{server.port}" for each in result)


async def test_two_kinds_on_one_usual_port_are_told_apart() -> None:
    first, second = Server({"/v1/models": _answer(_LIST % "b")}), Server({"/v1/models": _answer(_LIST % "a")})
    async with running(first, second):
        ports = (first.port, second.port)
        profiles = [
            _profile(name, *ports, signatures=[{"path": "/v1/models", "body": f'"{owner}"'}])
            for name, owner in (("mlx-lm", "a"), ("mlx-vlm", "b"))
        ]
        kinds = {found.root: found.profile for found in await discover(profiles)}
    assert kinds == {f"http://127.0.0.1:{first.port}": "mlx-vlm", f"http://127.0.0.1:{second.port}": "mlx-lm"}


async def test_of_two_profiles_with_one_signature_the_one_that_names_the_port_counts() -> None:
    server = Server({"/v1/models": _answer(_LIST % "mine")})
    async with running(server):
        profiles = [_profile("mlx-lm", 1, signatures=[_OWNED]), _profile("mlx-vlm", server.port, signatures=[_OWNED])]
        [found] = await discover(profiles, skip_ports={1})
    assert found.profile == "mlx-vlm"


async def test_a_port_to_skip_is_left_alone() -> None:
    server = Server({"/v1/models": _answer(_LIST % "mine")})
    async with running(server):
        assert await discover([_profile("ollama", server.port, signatures=[_OWNED])], skip_ports={server.port}) == []
    assert server.asked == []


async def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    assert await discover([_profile("ollama", port, signatures=[_OWNED])]) == []


async def test_an_endless_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_BODY_BYTES", 1000)
    server = Server(
        {"/": b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\nMine" + b"x" * 2000, "/v1/models": _answer()}
    )
    async with running(server):
        [found] = await discover([_profile("ollama", server.port, signatures=[{"path": "/", "body": "^Mine"}])])
    assert found.profile == "ollama"


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server, proxy = Server({"/v1/models": _answer(_LIST % "mine")}), Server({})
    async with running(server, proxy):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert await discover([_profile("ollama", server.port, signatures=[_OWNED])])
    assert proxy.asked == []


def _found(port: int, profile: str = "ollama", models: tuple[str, ...] = (), *, needs_key: bool = False) -> Found:
    return Found(f"http://127.0.0.1:{port}", profile, profile.title(), models, needs_key)


def test_backends_have_names_of_their_own() -> None:
    found = [_found(1), _found(2, "generic"), _found(3, "generic"), _found(4, needs_key=True)]
    assert [(backend.name, backend.root, backend.profile) for backend in as_backends(found)] == [
        ("ollama", "http://127.0.0.1:1", "ollama"),
        ("generic-2", "http://127.0.0.1:2", "generic"),
        ("generic-3", "http://127.0.0.1:3", "generic"),
    ]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            [],
            [
                (
                    "no model server found on ports 1, 2; start one, or write a configuration: "
                    "svir-proxy serve --config FILE"
                )
            ],
        ),
        ([_found(1)], ["found Ollama on http://127.0.0.1:1 (it lists no model yet)"]),
        ([_found(1, models=("a",))], ["found Ollama on http://127.0.0.1:1 (model a)"]),
        (
            [_found(1, models=("a", "b", "c")), _found(2, models=("a", "b", "c", "d", "e"))],
            [
                "found Ollama on http://127.0.0.1:1 (models a, b, c)",
                "found Ollama on http://127.0.0.1:2 (models a, b, c and 2 more)",
            ],
        ),
        (
            [_found(1, needs_key=True)],
            [
                (
                    "found Ollama on http://127.0.0.1:1, which asks for a key; "
                    "name it in a configuration (backends, api_key) to use it"
                )
            ],
        ),
    ],
)
def test_in_words(found: list[Found], lines: list[str]) -> None:
    assert in_words(found, [1, 2]) == lines


# What the servers themselves say, as recorded, run or documented: each must be taken for itself and for nothing else.
_SELF_PORTRAITS: dict[str, dict[str, bytes]] = {
    "llama-cpp": {
        "/props": _answer(
            '{"default_generation_settings":{"n_ctx":8192},"total_slots":4}', headers="Server: llama.cpp\r\n"
        ),
        "/health": _answer('{"status":"ok"}', headers="Server: llama.cpp\r\n"),
        "/v1/models": _answer(_LIST % "llamacpp"),
    },
    "lm-studio": {
        "/v1/models": _answer(_LIST % "organization_owner"),
        **{
            path: _answer(f'{{"error":"Unexpected endpoint or method. (GET {path})"}}')
            for path in ("/", "/health", "/props", "/get_model_info")
        },
    },
    "mlx-lm": {
        "/health": _answer('{"status": "ok"}', headers="Server: BaseHTTP/0.6 Python/3.11.7\r\n"),
        "/v1/models": _answer('{"object": "list", "data": [{"id": "m1", "object": "model", "created": 1}]}'),
    },
    "mlx-vlm": {
        "/health": _answer(
            '{"status":"healthy","loaded_model":"m1","loaded_tool_parser":null}',
            headers="server: uvicorn\r\nServer: mlx_vlm/0.7.10\r\n",
        ),
        "/v1/models": _answer('{"object":"list","data":[{"id":"m1","object":"model","created":1,"loaded":true}]}'),
    },
    "ollama": {"/": _answer("Ollama is running"), "/v1/models": _answer(_LIST % "library")},
    "sglang": {"/v1/models": _answer(_LIST % "sglang"), "/health": _answer()},
    "tgi": {
        "/info": _answer('{"model_id":"m1","max_concurrent_requests":128,"router":"text-generation-router"}'),
        "/v1/models": _answer(_LIST % "m1"),
        "/health": _answer(),
    },
    "tabbyapi": {
        "/v1/models": _answer(_LIST % "tabbyAPI"),
        "/health": _answer('{"status":"healthy","issues":[]}'),
        "/api/extra/version": _answer('{"result":"KoboldCpp","version":"1.74"}'),  # for clients of KoboldCpp
    },
    "localai": {
        "/": _answer("<html><head><title>LocalAI API</title></head></html>"),
        "/v1/models": _answer('{"object":"list","data":[{"id":"m1","object":"model"}]}'),
    },
    "lmdeploy": {"/v1/models": _answer(_LIST % "lmdeploy"), "/health": _answer()},
    "koboldcpp": {
        "/api/extra/version": _answer('{"result":"KoboldCpp","version":"1.121","protected":false}'),
        "/v1/models": _answer(_LIST % "koboldcpp"),
    },
    "text-generation-webui": {
        "/v1/internal/model/info": _answer('{"model_name":"m1","lora_names":[]}'),
        "/v1/models": _answer(_LIST % "user"),
    },
    "llama-cpp-python": {
        "/v1/models": _answer(
            '{"object":"list","data":[{"id":"m1","object":"model","owned_by":"me","permissions":[]}]}'
        )
    },
    "lemonade": {
        "/v1/models": _answer('{"object":"list","data":[{"id":"m1","object":"model","recipe":"llamacpp"}]}'),
    },
    "vllm": {"/v1/models": _answer(_LIST % "vllm"), "/health": _answer(), "/version": _answer('{"version":"0.30.0"}')},
    "generic": {"/v1/models": _answer(_LIST % "someone"), "/health": _answer('{"status":"ok"}')},
}


@pytest.mark.parametrize("kind", _SELF_PORTRAITS)
async def test_a_server_is_taken_for_what_it_is(kind: str) -> None:
    server = Server(dict(_SELF_PORTRAITS[kind]))
    async with running(server):
        # Any profile may be meant: each names the port.
        profiles = [
            profile.model_copy(update={"discovery": profile.discovery.model_copy(update={"ports": [server.port]})})
            for profile in builtin_profiles()
        ]
        [found] = await discover(profiles)
    assert (found.profile, found.models) == (kind, ("m1",))


def test_every_profile_that_can_be_found_has_a_portrait() -> None:
    profiles = builtin_profiles()
    assert {profile.name for profile in profiles if profile.discovery.signatures} == set(_SELF_PORTRAITS) - {"generic"}
    assert {1234, 8000, 8080, 11434} <= set(usual_ports(profiles))
    assert 8484 not in usual_ports(profiles), "the proxy would find itself"
