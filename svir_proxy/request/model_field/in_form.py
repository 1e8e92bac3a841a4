"""The ``model`` of a form with files (``multipart/form-data``).

Forms are read in many ways: with bare line feeds, with two names for one field, with text before and behind. The form
that every reader takes for the same is passed on, any other refused; clients' libraries write no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field.field import MAX_MODEL, said_twice, too_long

_CHARSET: Final = r"(?:\s*;\s*charset=\"?[\w-]{1,40}\"?)?"
_MEDIA: Final = re.compile(
    rf"multipart/form-data{_CHARSET}\s*;\s*boundary="
    rf"""(?:"([\w'()+,./:=? -]{{0,69}}[\w'()+,./:=?-])"|([\w!#$%&'*+.^`|~-]{{1,70}})){_CHARSET}\s*""",
    re.ASCII | re.IGNORECASE,
)
_PART_HEAD: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n)+")
_DISPOSITION: Final = re.compile(
    rb'[ \t]*form-data[ \t]*;[ \t]*name=(?:"([^"\\\r\n]*)"|([!#$%&\'*+.^_`|~0-9A-Za-z-]+))'
    rb"((?:[ \t]*;[ \t]*filename\*?=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";\\]+))*)[ \t]*",
    re.IGNORECASE,
)
_MAX_PART_HEAD: Final = 16 * 1024
_PLAIN: Final = re.compile(
    rb"7bit|8bit|binary|text/plain(?:[ \t]*;[ \t]*charset=\"?(?:utf-8|us-ascii)\"?)?", re.IGNORECASE
)
"""How a text is sent as it is."""


def form_boundary(media: str) -> bytes | None:
    """The boundary in a content-type; None where it is no form, or names none that all read alike."""
    found = _MEDIA.fullmatch(media.strip())
    return None if found is None else (found[1] or found[2]).encode("ascii")


class ModelInForm:
    """Follows a form whose parts are separated by *boundary*. See `ModelField`."""

    def __init__(self, boundary: bytes) -> None:
        self.model = ""
        self.span: tuple[int, int] | None = None
        self._line = b"--" + boundary
        self._buffer = bytearray()  # what was not passed over yet
        self._offset = 0  # of the buffer in the body
        self._value: bytearray | None = None  # of the model, as far as it has come
        self._start = 0  # of the value
        self._seen = False
        self._step: Callable[[], bool] = self._begin

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._buffer += data
        while self._step():
            pass

    def end(self) -> None:
        """The body has ended."""
        if self._step != self._behind:
            raise _malformed("it breaks off before its last boundary")

    def written(self, model: str) -> bytes:
        """*model* as the text of a part."""
        return model.encode("utf-8", "replace")

    # Each step takes something from the buffer, and says whether there may be more in it.

    def _begin(self) -> bool:
        size = min(len(self._buffer), len(self._line))
        if self._buffer[:size] != self._line[:size]:
            raise _malformed("it does not begin with the boundary that its content-type names")
        return self._boundary(0)

    def _boundary(self, at: int) -> bool:
        """The boundary's line at *at*, which separates two parts or is the last."""
        end = at + len(self._line)
        after = bytes(self._buffer[end : end + 2])
        if after == b"\r\n":
            self._step = self._head
        elif after == b"--":
            self._step = self._behind
        elif b"\r\n".startswith(after) or after == b"-":
            return False
        else:
            raise _malformed("something stands behind a boundary in its line")
        self._pass(end + 2)
        return True

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if self._buffer.startswith(b"\r\n"):
            raise _malformed("a part has no head")
        if end < 0:
            if len(self._buffer) > _MAX_PART_HEAD:
                raise _malformed("the head of a part is too long")
            return False
        self._read_head(bytes(self._buffer[: end + 2]))
        self._pass(end + 4)
        self._start = self._offset
        self._step = self._content
        return True

    def _content(self) -> bool:
        """On to the next boundary; whatever looks like one has to be one."""
        buffer, line = self._buffer, self._line
        at = buffer.find(line)
        if at < 0:
            # What follows may complete a boundary, whose line begins with the two bytes before it.
            self._take(len(buffer) - len(line) - 1)
            return False
        if len(buffer) < at + len(line) + 2:
            self._take(at - 2)
            return False
        if buffer[max(at - 2, 0) : at] != b"\r\n":
            raise _malformed("its boundary stands within a line")
        self._take(at - 2)
        if self._value is not None:
            try:
                self.model = self._value.decode()
            except UnicodeDecodeError:
                raise ProxyError("invalid_request", "'model' is not UTF-8.", param="model") from None
            self.span = (self._start, self._offset)
            self._value = None
        return self._boundary(2)

    def _behind(self) -> bool:
        """Behind the last boundary there is nothing, or nothing that anybody takes for a part."""
        keep = len(self._line) - 1
        if self._buffer.find(self._line) >= 0:
            raise _malformed("parts follow its last boundary")
        self._pass(max(len(self._buffer) - keep, 0))
        return False

    def _read_head(self, head: bytes) -> None:
        """Find out whether the part is the model."""
        if _PART_HEAD.fullmatch(head) is None:
            raise _malformed("the head of a part has a line that is no field")
        fields: dict[bytes, bytes] = {}
        for text in head[:-2].split(b"\r\n"):
            name, _, value = text.partition(b":")
            if fields.setdefault(name.lower(), value) is not value:
                raise _malformed("a part has the same field twice in its head")
        said = _DISPOSITION.fullmatch(fields.get(b"content-disposition", b""))
        if said is None:
            raise _malformed("a part has no content-disposition of the form 'form-data; name=\"...\"'")
        if (said[1] or said[2]) != b"model":
            return
        if self._seen:
            raise said_twice()
        self._seen = True
        how = [fields[name].strip() for name in (b"content-type", b"content-transfer-encoding") if name in fields]
        if said[3] or not all(map(_PLAIN.fullmatch, how)):
            raise ProxyError("invalid_request", "'model' must be plain text, not a file.", param="model")
        self._value = bytearray()

    def _take(self, size: int) -> None:
        """Pass over *size* bytes of a part's content."""
        if size <= 0:
            return
        if self._value is not None:
            if len(self._value) + size > MAX_MODEL:
                raise too_long()
            self._value += self._buffer[:size]
        self._pass(size)

    def _pass(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size


def _malformed(why: str) -> ProxyError:
    return ProxyError("invalid_request", f"The form cannot be read: {why}.")
