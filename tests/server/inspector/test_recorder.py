"""Nothing is written down while nobody looks, and what is written down has an end."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.inspector import recorder as module
from svir_proxy.server.inspector.recorder import Recorder
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.settings import InspectorSettings
from tests.server.support import Wire, client_request, http_scope
from tests.server.transport.raw_server import until


@pytest.fixture
async def recorder() -> Any:
    made = Recorder()
    made.configure(InspectorSettings())
    yield made
    made.close()


def served(recorder: Recorder, path: str = "/v1/chat/completions", content: str = "hi", **known: Any) -> RequestRecord:
    """One request, from its head to its end."""
    record = RequestRecord("r", "POST", path, **known)
    recorder.begin(record, http_scope(path), Wire().send)
    if record.exhibit is not None:
        record.exhibit.asked(client_request(messages=[{"role": "user", "content": content}]))
    record.status = record.status or 200
    recorder.end(record)
    return record


def told(recorder: Recorder) -> list[Any]:
    """The requests, as a viewer who comes now gets them."""
    texts = [text.decode() for text in recorder.everything()]
    return [json.loads(text.split("data: ")[1]) for text in texts if text.startswith("event: request")]


async def test_while_nobody_looks_nothing_is_kept(recorder: Recorder) -> None:
    record = RequestRecord("r", "POST", "/v1/chat/completions", key="app", backend="b0")
    send = Wire().send
    assert recorder.begin(record, http_scope(), send) == send
    assert record.exhibit is None
    recorder.end(record)
    assert told(recorder) == []
    assert not recorder.counts


async def test_a_request_that_ran_before_somebody_looked_is_a_line(recorder: Recorder) -> None:
    record = RequestRecord("r", "POST", "/v1/chat/completions")
    recorder.begin(record, http_scope(), Wire().send)
    with recorder.watching():
        recorder.end(record)
        [request] = told(recorder)
    assert not request["summary"]["seen"]


async def test_what_holds_a_request_is_let_go_with_it(recorder: Recorder) -> None:
    with recorder.watching():
        record = served(recorder)
    assert record.exhibit is None
    [exhibit] = recorder._exhibits
    assert exhibit._record is None
    assert exhibit._body is None


async def test_it_is_written_down_while_somebody_looks(recorder: Recorder) -> None:
    with recorder.watching():
        served(recorder)
    served(recorder)  # a page that is loaded anew is away for a moment
    assert [request["summary"]["seen"] for request in told(recorder)] == [True, True]
    recorder._watched_until = 0.0
    served(recorder)
    assert [request["summary"]["seen"] for request in told(recorder)] == [True, True, False]


async def test_or_always(recorder: Recorder) -> None:
    recorder.configure(InspectorSettings(record="always"))
    served(recorder)
    assert [request["summary"]["seen"] for request in told(recorder)] == [True]


async def test_probes_are_no_requests(recorder: Recorder) -> None:
    with recorder.watching():
        for path in ("/healthz", "/readyz"):
            served(recorder, path)
    assert told(recorder) == []


async def test_the_latest_are_kept_and_those_that_run(recorder: Recorder) -> None:
    recorder.configure(InspectorSettings(requests=3))
    with recorder.watching():
        running = RequestRecord("r", "POST", "/running")
        recorder.begin(running, http_scope(), Wire().send)
        for number in range(10):
            served(recorder, f"/{number}")
        assert [request["summary"]["path"] for request in told(recorder)] == ["/running", "/8", "/9"]
        recorder.end(running)


async def test_content_has_a_limit_and_the_oldest_goes_first(recorder: Recorder) -> None:
    recorder.configure(InspectorSettings(show_prompts=True, max_bytes=20_000))
    with recorder.watching():
        for number in range(10):
            served(recorder, f"/{number}", content="x" * 1500)
    seen = [request["summary"]["path"] for request in told(recorder) if request["client"] is not None]
    assert seen
    assert seen == [f"/{number}" for number in range(10)][-len(seen) :]
    assert sum(exhibit.size for exhibit in recorder._exhibits) <= 20_000


async def test_what_may_no_longer_be_seen_is_forgotten(recorder: Recorder) -> None:
    recorder.configure(InspectorSettings(show_prompts=True))
    with recorder.watching():
        served(recorder, content="a secret")
        running = RequestRecord("r", "POST", "/v1/chat/completions")
        recorder.begin(running, http_scope(), Wire().send)
        assert running.exhibit is not None
        running.exhibit.asked(client_request(messages=[{"role": "user", "content": "a secret"}]))
        attempt = running.exhibit.attempt("b", "m")
        assert json.dumps(told(recorder)).count("a secret") == 2
        recorder.configure(InspectorSettings())
        for say in (attempt, running.exhibit.attempt("c", "m")):
            say.read(b": a secret\n\n", [])
        running.exhibit.news()
        assert "a secret" not in json.dumps(told(recorder))
        recorder.end(running)
        assert "a secret" not in json.dumps(told(recorder))


async def test_another_change_of_the_configuration_forgets_nothing(recorder: Recorder) -> None:
    recorder.configure(InspectorSettings(show_prompts=True))
    with recorder.watching():
        served(recorder, content="hello")
        recorder.configure(InspectorSettings(show_prompts=True, requests=50))
        assert "hello" in json.dumps(told(recorder))


async def test_what_nobody_looks_at_any_more_is_forgotten(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FORGET", 0.001)
    with recorder.watching():
        served(recorder, key="app")
    await until(lambda: told(recorder) == [])
    assert not recorder.counts
    served(recorder)
    assert told(recorder) == []


async def test_many_news_about_one_thing_are_one_message(recorder: Recorder) -> None:
    with recorder.watching() as feed:
        record = RequestRecord("r", "POST", "/v1/chat/completions")
        recorder.begin(record, http_scope(), Wire().send)
        assert record.exhibit is not None
        record.exhibit.asked(client_request())
        attempt = record.exhibit.attempt("b0", "m")
        for _ in range(100):
            attempt.read(b": ping\n\n", [])
        await until(lambda: bool(feed._waiting))
        assert len(feed._waiting) == 1
        recorder.end(record)


async def test_there_are_only_so_many_viewers(recorder: Recorder) -> None:
    with ExitStack() as viewers:
        for _ in range(16):
            viewers.enter_context(recorder.watching())
        with pytest.raises(ProxyError) as refused:
            viewers.enter_context(recorder.watching())
        assert refused.value.kind == "overloaded"
    with recorder.watching():
        pass


async def test_requests_are_counted_by_key_and_by_backend(recorder: Recorder) -> None:
    with recorder.watching():
        served(recorder, key="app", backend="b0")
        served(recorder, key="app", backend="b1", status=502, error=ProxyError("upstream_failed", "x"))
        served(recorder)
    count = recorder.counts
    assert (count["key", "app", "requests"], count["key", "app", "errors"]) == (2, 1)
    assert (count["backend", "b0", "errors"], count["backend", "b1", "errors"]) == (0, 1)


async def test_a_slow_viewer_holds_nobody_up_and_is_told(recorder: Recorder) -> None:
    recorder.configure(InspectorSettings(show_prompts=True))
    with recorder.watching() as slow, recorder.watching() as quick:
        for _ in range(200):
            quick._waiting.clear()
            quick._size = 0
            served(recorder, content="x" * 2000)
            slow.put(b"x" * 20_000)
        assert slow.is_behind
        assert not quick.is_behind
