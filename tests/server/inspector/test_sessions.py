"""A login is a cookie that only who knows the key can have made."""

from __future__ import annotations

import hashlib
from typing import Final

import pytest

from svir_proxy.server.inspector.sessions import COOKIE, SECONDS, Sessions

NOW: Final = 1_000_000.0


def sessions_of(key: str, *, is_known: bool = True) -> Sessions:
    return Sessions(hashlib.sha256(key.encode()).digest(), key if is_known else None)


def login(sessions: Sessions) -> str:
    value = sessions.log_in("right", NOW)
    assert value is not None
    return value


def test_a_login_counts_for_its_time_in_every_worker() -> None:
    value = login(sessions_of("right"))
    another = sessions_of("right")
    assert another.knows(f'a={{"x": [1, "\u00e9"]}}; b; ={{}};{COOKIE}={value}; c=d', NOW)
    assert another.knows(f"{COOKIE}={value}", NOW + SECONDS - 1)
    assert not another.knows(f"{COOKIE}={value}", NOW + SECONDS)
    assert not sessions_of("another").knows(f"{COOKIE}={value}", NOW)


@pytest.mark.parametrize("beside", ['a={"b":1}', "a=b c", "\u00e9=1", f"{COOKIE}=x", "=", "", "[]=1"])
def test_cookies_of_other_programs_on_the_host_do_not_hide_it(beside: str) -> None:
    sessions = sessions_of("right")
    mine = f"{COOKIE}={login(sessions)}"
    assert sessions.knows(f"{beside}; {mine}", NOW)
    assert sessions.knows(f"{mine};{beside}", NOW)


@pytest.mark.parametrize("is_known", [True, False])
def test_another_key_ends_the_logins_with_the_one_before(is_known: bool) -> None:
    value = login(sessions_of("right", is_known=is_known))
    assert sessions_of("right", is_known=is_known).knows(f"{COOKIE}={value}", NOW)
    assert not sessions_of("another", is_known=is_known).knows(f"{COOKIE}={value}", NOW)


def test_no_login_is_like_another_and_none_holds_the_key() -> None:
    values = [login(sessions_of("right")) for _ in range(3)]
    assert len(set(values)) == 3
    assert not any("right" in value for value in values)


def test_another_key_is_none() -> None:
    sessions = sessions_of("right")
    assert [sessions.log_in(shown, NOW) for shown in ("", "wrong", "righ", "rightt", "\u00e9")] == [None] * 5


def test_nothing_else_is_a_login() -> None:
    sessions = sessions_of("right")
    value = login(sessions)
    until, nonce, signature = value.split(".")
    forged = {
        "nothing": "",
        "no value": f"{COOKIE}=",
        "no signature": f"{COOKIE}={until}.{nonce}",
        "a later end": f"{COOKIE}={int(until) + 1}.{nonce}.{signature}",
        "another nonce": f"{COOKIE}={until}.0.{signature}",
        "half a signature": f"{COOKIE}={until}.{nonce}.{signature[:32]}",
        "another name": f"x{COOKIE}={value}",
        "the key": f"{COOKIE}=right",
        "what is no cookie": f"{COOKIE}=\u00e9\x00;;=",
        "no time": f"{COOKIE}=x.{sessions._signature('x')}",
    }
    assert {name: sessions.knows(cookies, NOW) for name, cookies in forged.items()} == dict.fromkeys(forged, False)


def test_who_tries_many_keys_has_to_wait() -> None:
    sessions = sessions_of("right")
    for number in range(10):
        assert sessions.wait(NOW + number) == 0
        sessions.log_in("wrong", NOW + number)
    assert sessions.wait(NOW + 10) == pytest.approx(50)
    assert sessions.wait(NOW + 61) == 0


def test_who_reads_the_hash_of_the_key_makes_no_cookie() -> None:
    sessions = sessions_of("right", is_known=False)
    value = login(sessions)
    assert sessions.knows(f"{COOKIE}={value}", NOW)
    digest = hashlib.sha256(b"right").digest()
    for key in ("right", digest.hex(), digest.decode("latin-1")):
        assert not sessions.knows(f"{COOKIE}={Sessions(digest, key).log_in('right', NOW)}", NOW)
