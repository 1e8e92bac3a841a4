"""Images, audio and files: the decision table, and text files as text."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.request.rewrites import parts
from tests.request.support import Outcome, ask, outcome, user

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
REMOTE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
SENT = Outcome({}, [])


def _file(data: Any, name: Any = "a.txt") -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": data}}


def _encoded(text: str, media: str = "text/plain") -> str:
    return f"data:{media};base64,{base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("fact", ["kept", "unknown", "ignored", "rejected"])
@pytest.mark.parametrize(
    ("path", "part", "kind"),
    [
        ("images", IMAGE, "image_not_supported"),
        ("images", {"type": "input_image", "image_url": "data:image/png;base64,AA"}, "image_not_supported"),
        ("audio", AUDIO, "audio_not_supported"),
        ("remote_images", REMOTE, "image_url_not_allowed"),
        ("remote_images", {"type": "image_url", "image_url": "HTTP://example.org/a"}, "image_url_not_allowed"),
        ("files", _file("data:application/pdf;base64,AAAA"), "file_not_supported"),
        ("files", {"type": "file", "file": {"file_id": "file-1"}}, "file_not_supported"),
        ("files", {"type": "input_file", "file_id": "file-1"}, "file_not_supported"),
        ("files", {"type": "file"}, "file_not_supported"),
    ],
)
def test_parts_that_a_server_cannot_take(path: str, part: dict[str, Any], kind: str, fact: str) -> None:
    body = ask(user([{"type": "text", "text": "See"}, part]))
    if fact in ("kept", "unknown"):
        assert outcome(body, {path: fact}) == SENT
        return
    with pytest.raises(ProxyError) as caught:
        outcome(body, {path: fact})
    assert (caught.value.kind, caught.value.param) == (kind, "messages")
    assert "Plain takes no" in caught.value.message


def test_inline_images_are_not_remote() -> None:
    assert outcome(ask(user("a"), user([5, IMAGE])), {"remote_images": "rejected"}) == SENT


HELD = "data:image/png;base64,AAAA"


@pytest.mark.parametrize(
    ("part", "refers"),
    [
        (REMOTE, True),
        (IMAGE, False),
        (AUDIO, False),
        ({"type": "image_url", "image_url": "https://example.org/a.png"}, True),
        ({"type": "image_url", "image_url": {"url": " http://169.254.169.254/latest"}}, True),
        ({"type": "image_url", "image_url": {"url": "HTTP://10.0.0.1/"}}, True),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, True),
        ({"type": "image_url", "image_url": {"url": "/etc/passwd"}}, True),
        ({"type": "image_url", "image_url": {"url": "DATA:image/png;base64,AAAA"}}, False),
        ({"type": "image_url", "image_url": HELD}, False),
        ({"type": "image_url", "image_url": {"url": 5}}, False),
        ({"type": "image_url"}, False),
        ({"image_url": "http://10.0.0.1/"}, True),
        ({"image_url": HELD}, False),
        ({"type": None, "image_url": "http://10.0.0.1/"}, True),
        ({"type": "text", "text": "x", "uuid": "u", "image_url": "http://10.0.0.1/"}, True),
        ({"type": "input_image", "image_url": "http://10.0.0.1/"}, True),
        ({"type": "image", "image": "http://10.0.0.1/"}, True),
        ({"type": "image", "source": {"type": "url", "url": "http://10.0.0.1/"}}, True),
        ({"type": "video_url", "video_url": {"url": "http://10.0.0.1/"}}, True),
        ({"type": "video", "video": [{"url": "http://10.0.0.1/"}]}, True),
        ({"type": "audio_url", "audio_url": {"url": "http://10.0.0.1/"}}, True),
        ({"audio_url": "http://10.0.0.1/"}, True),
        ({"type": "file", "file": {"file_url": "http://10.0.0.1/"}}, True),
        ({"type": "file", "file": {"file_data": HELD}}, False),
        ({"type": "text", "text": "look at http://10.0.0.1/"}, False),
    ],
)
def test_a_server_in_a_network_of_the_operators_fetches_nothing(part: Any, refers: bool) -> None:
    body = ask(user([{"type": "text", "text": "See"}, part]))
    if not refers:
        assert outcome(body, {"remote_images": "withheld"}) == SENT
        return
    with pytest.raises(ProxyError) as caught:
        outcome(body, {"remote_images": "withheld"})
    assert (caught.value.kind, caught.value.param) == ("image_url_not_allowed", "messages")
    assert "as a data URL" in caught.value.message
    assert "10.0.0.1" not in caught.value.message


def test_a_part_may_be_nested_as_deeply_as_json_can_be_read() -> None:
    part: Any = {"url": "http://10.0.0.1/"}
    for _ in range(5000):
        part = {"file": [part]}
    assert parts._refers(part)


@pytest.mark.parametrize("fact", ["ignored", "rejected"])
@pytest.mark.parametrize(
    ("part", "text"),
    [
        (_file(_encoded("one\ntwo")), '<file name="a.txt">\none\ntwo\n</file>'),
        (_file(_encoded("\ufeffé", "text/csv; charset=utf-8")), '<file name="a.txt">\né\n</file>'),
        (_file(_encoded("{}", "application/json"), None), '<file name="file">\n{}\n</file>'),
        (_file(_encoded("x"), ""), '<file name="file">\nx\n</file>'),
        (_file(_encoded("x"), 5), '<file name="file">\nx\n</file>'),
        (_file("data:text/plain,one%20two"), '<file name="a.txt">\none two\n</file>'),
        (_file(_encoded("x"), 'a"<b>\r\n&.txt'), '<file name="a&quot;&lt;b>  &amp;.txt">\nx\n</file>'),
        (
            {"type": "input_file", "filename": "a.txt", "file_data": _encoded("x")},
            '<file name="a.txt">\nx\n</file>',
        ),
    ],
)
def test_a_text_file_goes_as_text(part: dict[str, Any], text: str, fact: str) -> None:
    question = {"type": "text", "text": "What is it?"}
    result = outcome(ask(user("before"), user([question]), user([5, part, question])), {"files": fact})
    turned = user([5, {"type": "text", "text": text}, question])
    assert result.changes == {"messages": [user("before"), user([question]), turned]}
    assert result.notes == ["file=text"]


@pytest.mark.parametrize(
    "data",
    [
        "data:text/plain;base64,?",
        "data:text/plain;base64,é",
        "data:text/plain;base64,/w==",
        "AAAA",
        "data:text/plain",
        5,
    ],
)
def test_what_is_no_readable_text_is_refused(data: Any) -> None:
    with pytest.raises(ProxyError, match="not a text file"):
        outcome(ask(user([_file(data)])), {"files": "rejected"})
