"""The meter itself: it tells linear from quadratic work."""

from __future__ import annotations

from tests.support.work import peak, work

PIECES = [b"x" * 16] * 1000


class Joining:
    """Joins everything so far to each piece."""

    def __init__(self) -> None:
        self.text = b""

    def __call__(self, piece: bytes) -> None:
        self.text = b"".join([self.text, piece])


class Searching:
    """Searches everything so far with each piece, without a copy."""

    def __init__(self) -> None:
        self.text = bytearray()

    def __call__(self, piece: bytes) -> None:
        self.text += piece
        self.text.find(b"\n")


class Keeping:
    """Keeps the pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def __call__(self, piece: bytes) -> None:
        self.pieces.append(bytes(bytearray(piece)))


def _growth(kind: type) -> float:
    return work(kind(), PIECES * 2) / work(kind(), PIECES)


def test_quadratic_work_grows_fourfold_and_linear_work_twofold() -> None:
    assert _growth(Joining) > 3.5
    assert _growth(Searching) > 3.5
    assert _growth(Keeping) < 2.5


def test_the_peak_is_what_is_held() -> None:
    assert peak(Keeping(), PIECES) > 16_000
    assert peak(bytearray, PIECES) < 4_000
