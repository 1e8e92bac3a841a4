"""Images by URL: fetched only from the public internet, from the very address that was looked at."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import httpx
import pytest

from svir_proxy.client_request import content_parts
from svir_proxy.errors import ProxyError
from svir_proxy.request.rewrites.parts import remote_image_url
from svir_proxy.server.remote_images import MAX_BYTES, ImageFetcher, inline_images
from tests.server.support import COMPLETION, listing, serving, settings

PNG = b"\x89PNG\r\n\x1a\nimage"
PUBLIC = "93.184.216.34"


def fetcher(
    names: Mapping[str, list[str]], answers: Mapping[str, httpx.Response], seen: list[httpx.Request] | None = None
) -> ImageFetcher:
    """A fetcher on a network where *names* resolve and *answers* (by host header and path) are given."""

    async def resolve(host: str, port: int) -> list[str]:
        return names.get(host, [])

    def answer(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        return answers[request.headers["host"] + request.url.path]

    return ImageFetcher(resolve, httpx.MockTransport(answer))


def png(**headers: str) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "image/png", **headers}, stream=httpx.ByteStream(PNG))


def to(location: str) -> httpx.Response:
    return httpx.Response(302, headers={"location": location})


async def test_an_image_comes_inline_from_the_address_that_was_looked_at() -> None:
    seen: list[httpx.Request] = []
    made = fetcher({"pics.example": [PUBLIC]}, {"pics.example/a.png": png()}, seen)
    assert await made.fetch("https://pics.example/a.png") == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    (request,) = seen
    assert (request.url.host, request.headers["host"]) == (PUBLIC, "pics.example")
    assert request.extensions["sni_hostname"] == "pics.example"


NAMES = {
    "pics.example": [PUBLIC],
    "inside.example": ["10.0.0.7"],
    "both.example": [PUBLIC, "127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "127.0.0.1": ["127.0.0.1"],
    "[::1]": ["::1"],
    "::1": ["::1"],
}


@pytest.mark.parametrize(
    ("url", "answers", "why"),
    [
        ("http://127.0.0.1/a", {}, "not on the public internet"),
        ("http://[::1]/a", {}, "not on the public internet"),
        ("http://inside.example/a", {}, "not on the public internet"),
        ("http://meta.example/latest/meta-data", {}, "not on the public internet"),
        ("http://both.example/a", {}, "not on the public internet"),
        ("http://nowhere.example/a", {}, "has no address"),
        ("http://user:secret@pics.example/a", {}, "holds credentials"),
        ("ftp://pics.example/a", {}, "only http and https"),
        ("http://pics.example/r", {"pics.example/r": to("http://inside.example/a")}, "not on the public internet"),
        ("http://pics.example/r", {"pics.example/r": to("file:///etc/passwd")}, "only http and https"),
        ("http://pics.example/r", {"pics.example/r": to("/r")}, "redirects too often"),
        ("http://pics.example/a", {"pics.example/a": httpx.Response(404)}, "answered 404"),
        ("http://pics.example/a", {"pics.example/a": httpx.Response(200, html="<p>")}, "text/html, not an image"),
        ("http://pics.example/a", {"pics.example/a": png(**{"content-encoding": "gzip"})}, "compressed"),
        (
            "http://pics.example/a",
            {
                "pics.example/a": httpx.Response(
                    200, headers={"content-type": "image/png"}, stream=httpx.ByteStream(bytes(MAX_BYTES + 1))
                )
            },
            "larger than",
        ),
    ],
)
async def test_what_may_not_be_fetched_is_refused_with_the_reason(
    url: str, answers: Mapping[str, httpx.Response], why: str
) -> None:
    with pytest.raises(ProxyError) as caught:
        await fetcher(NAMES, answers).fetch(url)
    assert caught.value.kind == "image_url_not_allowed"
    assert why in caught.value.message
    assert "secret" not in caught.value.message


async def test_each_url_is_fetched_once_and_the_rest_of_the_body_is_shared() -> None:
    fetched: list[str] = []

    async def fetch(url: str) -> str:
        fetched.append(url)
        return "data:image/png;base64,AA=="

    plain = {"role": "system", "content": "x"}
    inline = {"type": "image_url", "image_url": {"url": "data:image/png;base64,BB=="}}
    remote = {"type": "image_url", "image_url": {"url": "https://a.example/x", "detail": "low"}}
    body = {"messages": [plain, {"role": "user", "content": [remote, inline, remote, {"type": "text", "text": "t"}]}]}
    assert any(map(remote_image_url, content_parts(body["messages"])))
    changed = await inline_images(body, fetch)
    assert fetched == ["https://a.example/x"]
    assert changed["messages"][0] is plain
    first, second, *_ = changed["messages"][1]["content"]
    assert first == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
    assert second is inline
    assert not any(map(remote_image_url, content_parts(changed["messages"])))
    assert await inline_images(changed, fetch) is changed


@pytest.mark.parametrize(
    ("backend", "status", "gets"),
    [
        ({}, 400, None),
        ({"remote_images": "inline"}, 200, "data:image/png;base64,"),
        ({"remote_images": "pass"}, 200, "https://a.example/x"),
        ({"remote_images": "reject"}, 400, None),
    ],
)
@pytest.mark.parametrize("profile", ["vllm", "mlx-vlm", "generic", "openai"])
async def test_a_server_on_this_machine_fetches_nothing_unless_it_is_told_to(
    profile: str, backend: dict[str, str], status: int, gets: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(_: ImageFetcher, url: str) -> str:
        assert url == "https://a.example/x"
        return "data:image/png;base64,AA=="

    monkeypatch.setattr(ImageFetcher, "fetch", fetch)
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            asked.append(request)
        return httpx.Response(200, json=COMPLETION if request.method == "POST" else listing("m"))

    image = {"type": "image_url", "image_url": {"url": "https://a.example/x"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [image]}]}
    async with serving(settings(profile=profile, backend=backend), answer) as client:
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == status
    if gets is None:
        assert response.json()["error"]["code"] == "image_url_not_allowed"
        assert asked == []
    else:
        assert gets in asked[0].content.decode()
