"""Every way people write a base URL comes to one form, or is refused with the remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.settings.base_url import normalize_base_url


@pytest.mark.parametrize(
    ("written", "root"),
    [
        ("http://h:1234", "http://h:1234"),
        ("http://h:1234/", "http://h:1234"),
        ("http://h:1234/v1", "http://h:1234"),
        ("http://h:1234/v1/", "http://h:1234"),
        ("http://h:1234//v1//", "http://h:1234"),
        (" http://h:1234/v1 ", "http://h:1234"),
        ("HTTP://H:1234/V2", "http://h:1234/V2"),
        ("http://h/api/v1", "http://h/api"),
        ("http://h/v1/api", "http://h/v1/api"),
        ("http://h/apiv1", "http://h/apiv1"),
        ("https://x.openai.azure.com/openai/v1", "https://x.openai.azure.com/openai"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
    ],
)
def test_written_in_many_ways(written: str, root: str) -> None:
    assert normalize_base_url(written) == root


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", "does not start with http"),
        ("localhost:1234", "does not start with http"),
        ("127.0.0.1:1234/v1", "does not start with http"),
        ("ftp://h", "does not start with http"),
        ("http:/h", "does not start with http"),
        ("http://", "names no host"),
        ("http:///v1", "names no host"),
        ("http://:80", "names no host"),
        ("http://h:99999", "port up to 65535"),
        ("http://h:port", "port up to 65535"),
        ("http://[::1", "is no URL"),
        ("http://u:hidden@h", "api_key"),
        ("http://hidden@h", "api_key"),
        ("https://h/v1?key=hidden", "overrides.endpoint.query"),
        ("https://h/v1?", "overrides.endpoint.query"),
        ("http://h/#hidden", "fragment"),
        ("http://h/#", "fragment"),
        ("http://h/v1/chat/completions", "leave out /chat/completions"),
        ("http://h/v1/models/", "leave out /models"),
        ("http://h /v1", "space"),
        ("http://h\n.example", "control character"),
    ],
)
def test_refused(written: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        normalize_base_url(written)
    assert "hidden" not in str(refused.value)


@given(st.lists(st.sampled_from(["v1", "api", "openai", "V1", "a-b"])), st.sampled_from(["", "/"]))
def test_a_normal_form_stays_as_it_is(path: list[str], end: str) -> None:
    root = normalize_base_url("/".join(["http://h:1", *path]) + end)
    once_more = root if root.endswith("/v1") else normalize_base_url(root)
    assert once_more == root
    assert not root.endswith("/")
