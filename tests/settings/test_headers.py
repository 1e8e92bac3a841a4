"""Headers that cannot be sent are refused, each with its name and never with its value."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from pydantic_core import PydanticCustomError

from svir_proxy.settings.headers import check_headers


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("x-team", "blue", None),
        ("x-empty", "", None),
        ("x team", "sk-1", ("x team", "is no name of a header")),
        ("x\n", "sk-1", ("x\\n", "is no name of a header")),
        ("Host", "sk-1", ("Host", "is set by the proxy; leave it out")),
        (
            "x-key",
            "sk-1\r\nx: y",
            ("x-key", "holds a line break or a character that no header can carry; leave it out"),
        ),
    ],
)
def test_a_header(name: str, value: str, said: tuple[str, str] | None) -> None:
    if said is None:
        check_headers({name: SecretStr(value)}, {"host"})
        return
    with pytest.raises(PydanticCustomError) as caught:
        check_headers({"x-good": SecretStr("1"), name: SecretStr(value)}, {"host"})
    assert caught.value.context == {"problems": [said], "up": 0}
