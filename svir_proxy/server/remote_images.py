"""Images given as a URL, fetched by the proxy and put inline, for backends that take no URLs.

A URL in a prompt is a way into the network the proxy stands in, so: http and https only, no credentials, every name
resolved once and the connection made to the very address that was looked at, private, loopback and link-local
addresses refused, at every redirect again; bounded in size, time, number and hops; and only images are taken.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx

from svir_proxy.addresses import is_public
from svir_proxy.client_request import Body, content_parts
from svir_proxy.errors import ProxyError
from svir_proxy.request.context import with_values
from svir_proxy.request.rewrites.parts import remote_image_url

MAX_BYTES: Final = 20 << 20
MAX_IMAGES: Final = 20
_SECONDS: Final = 15.0
_HOPS: Final = 3
_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff", "image/avif")

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def inline_images(body: Body, fetch: Callable[[str], Awaitable[str]]) -> Body:
    """*body* with a data URL in place of each image's http(s) URL; *fetch* makes one of the other."""
    urls = sorted({url for part in content_parts(body["messages"]) if (url := _url(part)) is not None})
    if not urls:
        return body
    if len(urls) > MAX_IMAGES:
        raise _refused(urls[MAX_IMAGES], f"there are more than {MAX_IMAGES} of them")
    fetched = dict(zip(urls, await asyncio.gather(*map(fetch, urls)), strict=True))
    messages = [_replaced(message, fetched) for message in body["messages"]]
    return with_values(body, {"messages": messages})


class ImageFetcher:
    """Fetches images. *resolve* and *transport* stand for the network in tests."""

    def __init__(self, resolve: Resolve | None = None, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._resolve = resolve or _addresses
        self._transport = transport  # made when it is first needed: most configurations never do

    async def fetch(self, url: str) -> str:
        """The image at *url* as a data URL; raises ProxyError where it may not or cannot be had."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._follow(url)
        except TimeoutError:
            raise _refused(url, f"it did not arrive within {_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as exc:
            raise _refused(url, f"it cannot be fetched ({type(exc).__name__})") from exc

    async def close(self) -> None:
        """Close all connections."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _follow(self, url: str) -> str:
        at = url
        for _ in range(_HOPS + 1):
            response = await self._get(at, url)
            try:
                if response.is_redirect and "location" in response.headers:
                    at = urljoin(at, response.headers["location"])
                    continue
                if not response.is_success:
                    raise _refused(url, f"its server answered {response.status_code}")
                return await _read(response, url)
            finally:
                await response.aclose()
        raise _refused(url, "it redirects too often")

    async def _get(self, at: str, url: str) -> httpx.Response:
        target = httpx.URL(at)
        if target.scheme not in ("http", "https") or not target.host:
            raise _refused(url, "only http and https are fetched")
        if target.userinfo:
            raise _refused(url, "it holds credentials")
        port = target.port or (443 if target.scheme == "https" else 80)
        addresses = await self._resolve(target.host, port)
        if not addresses:
            raise _refused(url, "its host has no address")
        if not all(map(is_public, addresses)):
            raise _refused(url, "its host is not on the public internet")
        # The connection goes to the address that was looked at: a name can resolve to another one a moment later.
        pinned = target.copy_with(host=addresses[0])
        request = httpx.Request(
            "GET",
            pinned,
            headers={"host": target.netloc.decode("ascii"), "accept": "image/*", "accept-encoding": "identity"},
            extensions={
                "sni_hostname": target.host,
                "timeout": {"connect": 5.0, "read": _SECONDS, "write": 5.0, "pool": None},
            },
        )
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(trust_env=False)
        return await self._transport.handle_async_request(request)


async def _addresses(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]).partition("%")[0] for address in found]


async def _read(response: httpx.Response, url: str) -> str:
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in _TYPES:
        raise _refused(url, f"it is {media or 'of no type'}, not an image")
    if "content-encoding" in response.headers:
        raise _refused(url, "it is compressed")
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > MAX_BYTES:
            raise _refused(url, f"it is larger than {MAX_BYTES} bytes")
    return f"data:{media};base64,{base64.b64encode(data).decode('ascii')}"


def _url(part: Any) -> str | None:
    if not isinstance(part, dict) or part.get("type") != "image_url":
        return None
    return remote_image_url(part)


def _replaced(message: dict[str, Any], fetched: Mapping[str, str]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list) or not any(_url(part) for part in content):
        return message
    return {**message, "content": [_inline(part, fetched) for part in content]}


def _inline(part: Any, fetched: Mapping[str, str]) -> Any:
    url = _url(part)
    if url is None:
        return part
    image = part["image_url"]
    return {**part, "image_url": {**(image if isinstance(image, dict) else {}), "url": fetched[url]}}


def _refused(url: str, why: str) -> ProxyError:
    return ProxyError(
        "image_url_not_allowed",
        f"The image {_shown(url)} is not used: {why}. Send the image inline, as a data URL.",
        param="messages",
    )


def _shown(url: str) -> str:
    """*url* without what may be secret in it."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"[:200]
    except ValueError:
        return "given as a URL"
