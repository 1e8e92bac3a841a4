"""The inspector's page in a real browser, in front of a real llama.cpp."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import yaml

from tests.browser.conftest import UPSTREAM_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.browser.chromium import Page
    from tests.live.processes import Child

    Looking = Callable[..., AbstractContextManager[tuple[str, Page, Child, Path]]]

pytestmark = pytest.mark.live

PATH: Final = "/svir/inspector"
CHAT: Final = "/v1/chat/completions"
LOCKER: Final = {"type": "function", "function": {"name": "open_locker", "parameters": {"type": "object"}}}


def ask(url: str, text: str, *, model: str = "smart", **more: Any) -> httpx.Response:
    """A plain request of a client."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return httpx.post(url + CHAT, json=body, timeout=60)


@contextmanager
def streaming(url: str, text: str, **more: Any) -> Iterator[httpx.Response]:
    body = {"model": "smart", "messages": [{"role": "user", "content": text}], "stream": True, **more}
    with httpx.stream("POST", url + CHAT, json=body, timeout=60) as response:
        yield response


def look_on(url: str, page: Page) -> None:
    """The page, once it is told everything."""
    page.open(url + PATH)
    page.wait_for("document.querySelector('#connection.is-live')")


def choose(page: Page, number: int) -> None:
    """The request of this *number*, once it is over and shown."""
    page.wait_for(f"document.querySelector('#requests a[href=\"#requests/{number}\"]')")
    page.run(f"location.hash = '#requests/{number}'")
    page.wait_for("document.querySelector('#detail h2') && !document.querySelector('#detail h2 .runs')")


def test_a_stream_is_seen_as_it_comes(looking: Looking) -> None:
    with looking(show_prompts=True) as (url, page, *_):
        look_on(url, page)
        with streaming(url, "[[s:loop]] go", max_tokens=3000) as response:
            pieces = response.iter_bytes()
            next(pieces)
            page.wait_for("document.querySelector('#requests .runs')")
            page.run("location.hash = '#requests/1'")
            page.wait_for("document.querySelectorAll('.events tbody tr').length > 3")
            first = page.run("document.querySelector('.events tbody tr').innerText")
            for _ in pieces:
                pass
        choose(page, 1)
        assert first.split("\t")[1].startswith("data: {")
        assert '"content"' in page.text(".events")
        # a last read that holds more than a row shows ends with an ellipsis
        page.wait_for(
            r"/data: \[DONE\]|\u2026/.test([...document.querySelectorAll('.events tbody tr')].at(-1).innerText)"
        )
        # of three thousand pieces the beginning and the end stand on the page, and how many do not
        assert page.run("document.querySelectorAll('.events tbody tr').length") < 400
        assert re.search(r"[\d,]+ pieces not shown", page.text(".events"))
        assert "length" in page.text("#detail dl")
        assert page.complaints == []


def test_each_change_is_marked_and_explained(looking: Looking) -> None:
    with looking(show_prompts=True) as (url, page, *_):
        look_on(url, page)
        ask(url, "[[s:call]] open", tools=[LOCKER], max_completion_tokens=90)
        choose(page, 1)
        page.wait_for("document.querySelector('.json ins')")
        added = page.run("[...document.querySelectorAll('.json ins')].map((line) => line.textContent.trim())")
        removed = page.run("[...document.querySelectorAll('.json del')].map((line) => line.textContent.trim())")
        assert '"max_tokens": 90' in added
        assert '"max_completion_tokens": 90' in removed
        assert "the output limit goes under the name the server reads" in page.text(".reasons")
        assert '"name":"open_locker"' in page.text(".events")
        assert "tool_calls" in page.text("#detail dl")


def test_a_failover_shows_both_attempts(looking: Looking) -> None:
    with looking() as (url, page, *_):
        look_on(url, page)
        assert ask(url, "hi", model="team").headers["x-svir-backend"] == "desk"
        choose(page, 1)
        page.wait_for("document.querySelectorAll('.attempt').length === 2")
        assert "rack failed" in page.text(".attempt")
        assert "upstream_unreachable" in page.text(".attempt .error")
        assert "Asked elsewhere first: rack:upstream_unreachable." in page.text("#detail")
        page.run("location.hash = '#backends'")
        page.wait_for("document.querySelector('#backends').innerText.includes('failed last')")
        assert "0 of 4 taken" in page.text("#backends")


def test_an_error_is_shown_with_what_the_server_said(looking: Looking) -> None:
    with looking(show_prompts=True) as (url, page, *_):
        look_on(url, page)
        assert ask(url, "hi", max_tokens="many").status_code == 400
        choose(page, 1)
        assert "400 invalid_request" in page.text("#detail .error")
        page.click(".attempt details summary")
        page.wait_for("document.querySelector('.attempt pre').innerText.includes('type must be number')")
        assert page.text("#requests .pill") == "400"


def test_without_prompts_the_page_has_none(looking: Looking) -> None:
    with looking() as (url, page, *_):
        look_on(url, page)
        answer = ask(url, "[[s:think]] my-secret").json()["choices"][0]["message"]
        choose(page, 1)
        page.wait_for("document.querySelector('.events') !== null")
        shown = page.run("document.documentElement.outerHTML")
        assert "my-secret" not in shown
        assert answer["content"] not in shown
        assert re.search(r"«\d+ characters»", page.text(".events"))
        assert UPSTREAM_KEY not in shown


HOSTILE: Final = "</td><img src=x onerror=alert(1)><script>alert(2)</script>"


def test_what_clients_and_servers_chose_is_text(looking: Looking) -> None:
    with looking(show_prompts=True) as (url, page, *_):
        look_on(url, page)
        ask(url, HOSTILE, tools=[{"type": "function", "function": {"name": HOSTILE}}], **{HOSTILE: HOSTILE})
        ask(url, "hi", model=HOSTILE)
        choose(page, 2)
        choose(page, 1)
        page.wait_for("document.querySelector('.json').innerText.includes('onerror')")
        assert page.run("document.querySelectorAll('main img, main script').length") == 0
        assert page.complaints == []


def test_a_page_of_another_origin_cannot_read_it(looking: Looking) -> None:
    with looking({"server": {"cors_origins": ["*"]}}) as (url, page, *_), looking() as (other, *_):
        look_on(other, page)
        # the page's own policy would refuse it first, so a page without one asks
        page.open(other + "/healthz")
        read = f"fetch('{url}{PATH}/events').then(() => 'read', () => 'refused')"
        assert page.run(read) == "refused"
        assert page.run(f"fetch('{url}/v1/models').then(() => 'read', () => 'refused')") == "read"


def test_the_login(looking: Looking) -> None:
    with looking(key="key-of-the-inspector") as (url, page, *_):
        page.open(url + PATH)
        page.wait_for("location.pathname.endsWith('/login')")
        for key, end in (
            ("wrong", "location.hash === '#wrong'"),
            ("key-of-the-inspector", "document.querySelector('.is-live')"),
        ):
            page.fill("#key", key)
            page.click("button")
            page.wait_for(end)
        assert page.run("document.cookie") == "", "no script can read it"
        assert not any("key-of-the-inspector" in asked for asked in page.requested)
        assert page.run("localStorage.length + sessionStorage.length") == 0
        page.click("#logout button")
        page.wait_for("location.pathname.endsWith('/login')")
        assert page.complaints == []


def test_the_page_goes_on_after_a_reload_and_at_the_end_holds_nobody_up(looking: Looking) -> None:
    with looking() as (url, page, proxy, config):
        look_on(url, page)
        ask(url, "hi")
        page.wait_for("document.querySelectorAll('#requests tbody tr').length === 1")
        settings = yaml.safe_load(config.read_text("utf-8"))
        settings["backends"].append({"name": "new", "base_url": "http://127.0.0.1:10"})
        config.write_text(yaml.safe_dump(settings), "utf-8")
        proxy.process.send_signal(signal.SIGHUP)
        page.wait_for("document.querySelector('#backends').textContent.includes('new')")
        ask(url, "hi")
        page.wait_for("document.querySelectorAll('#requests tbody tr').length === 2")
        # draining may take a minute; a page that is open is no answer that has to end
        settings["server"] = {"drain_seconds": 600}
        config.write_text(yaml.safe_dump(settings), "utf-8")
        proxy.process.send_signal(signal.SIGHUP)
        page.wait_for("document.querySelector('#connection.is-live')")
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.wait() == 0
        page.wait_for("document.querySelector('#connection-text').textContent.includes('trying again')")


def test_a_page_that_sees_one_worker_says_so(looking: Looking) -> None:
    with looking({"server": {"workers": 2}}, key="k") as (url, page, *_):
        page.open(url + PATH)
        page.fill("#key", "k")
        page.click("button")
        page.wait_for("document.querySelector('.is-live')")
        for _ in range(100):  # until it is the one that is looked at
            ask(url, "hi")
            if page.run("!!document.querySelector('#requests tbody tr')"):
                break
        page.wait_for("document.querySelector('#requests tbody tr')")
        assert re.fullmatch(
            r"This is worker \d+, one of 2: what the others serve is not shown here.", page.text("#notice")
        )


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_playground_asks_as_a_client(looking: Looking, stream: bool) -> None:
    with looking({"auth": {"keys": [{"name": "app", "key": "client-key"}]}}, key="k") as (url, page, *_):
        page.open(url + PATH)
        page.fill("#key", "k")
        page.click("button")
        page.wait_for("document.querySelector('.is-live')")
        page.run("location.hash = '#playground'")
        page.fill("#play-model", "smart")
        page.fill("#play-user", "[[s:say-call]] open")
        page.click("#play-tool")
        page.fill("#play-more", '{"max_tokens": 60}')
        if not stream:
            page.click("#play-stream")
        page.click("#play button[type=submit]")
        page.wait_for("document.querySelector('#play-status').innerText.startsWith('401')")
        assert "API key" in page.text("#play-status")
        page.fill("#play-key", "client-key")
        page.click("#play button[type=submit]")
        page.wait_for("document.querySelector('#play-status').innerText.includes('ended as')")
        assert page.text("#play-status").startswith("200 from desk, ended as ")
        assert "I will open it." in page.text("#play-content")
        assert "get_weather" in page.text("#play-calls")
        page.run("location.hash = '#keys'")
        page.wait_for("document.querySelector('#keys').innerText.includes('app')")
        page.fill("#play-more", "{")
        page.click("#play button[type=submit]")
        page.wait_for("document.querySelector('#play-problem').textContent.startsWith('More fields')")


SCHEMES: Final = [(scheme, width) for scheme in ("light", "dark") for width in (390, 1440)]


@pytest.mark.parametrize(("scheme", "width"), SCHEMES)
def test_it_can_be_read_and_used(looking: Looking, scheme: str, width: int) -> None:
    """Names for all that can be used, contrast of what is shown, nothing wider than the window, the keyboard."""
    with looking(show_prompts=True) as (url, page, *_):
        page.look(width, 850, scheme, calm=True)
        look_on(url, page)
        ask(url, "[[s:think-call]] open", tools=[LOCKER])
        ask(url, "hi", model="team")
        ask(url, "hi", max_tokens="many")
        for hash_ in ("requests/1", "requests/2", "requests/3", "backends", "models", "keys", "playground"):
            page.run(f"location.hash = '#{hash_}'")
            if hash_.startswith("requests/"):
                page.wait_for("document.querySelector('.attempt .json, .attempt .error')")
            assert page.run(AUDIT) == [], hash_
        # from the top: the way past the header, then the sections in order
        page.open(f"{url}{PATH}?from=the-top")
        reached = []
        for _ in range(6):
            page.press("Tab")
            reached.append(page.run("document.activeElement.innerText"))
        assert reached == ["Skip to the content", "Requests", "Backends", "Models", "Keys", "Playground"]
        page.press("Enter")
        page.wait_for("!document.querySelector('#section-playground').hidden")


AUDIT: Final = r"""
(() => {
  const found = [];
  const visible = (e) => e.getClientRects().length > 0;
  const name = (e) => (e.getAttribute("aria-label") || e.innerText || e.title || (e.labels && [...e.labels].map((l) => l.innerText).join(" ")) || "").trim();
  for (const e of document.querySelectorAll("a, button, input, textarea, summary, [role=region]")) {
    const by = e.getAttribute("aria-labelledby");
    if (visible(e) && !name(e) && !(by && document.getElementById(by))) found.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`twice: ${id}`);
  if (document.documentElement.scrollWidth > innerWidth) found.push(`wider than the window: ${document.documentElement.scrollWidth}`);
  const colour = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const back = colour(getComputedStyle(at).backgroundColor);
      if (back.length === 3 || back[3] === 1) return back;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.textContent.trim() || !visible(e) || e.closest(":disabled, noscript")) continue;
    const [low, high] = [light(colour(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${node.textContent.trim().slice(0, 40)}`);
  }
  if (document.getAnimations().some((one) => one.playState === "running")) found.push("it moves, though the system asks it not to");
  return [...new Set(found)];
})()
"""
