"""The endpoints beside chat: their bodies pass untouched in both directions, but for the model's name.

Who is asked, with which key, how many at a time, what a failure looks like and how it is logged is as for chat. A body
that is passed on while it comes cannot be sent twice: only whole ones go to another backend when one fails.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Final

from starlette.types import Receive, Scope, Send

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelField, ModelInForm, ModelInJson, form_boundary
from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog, Route
from svir_proxy.server.chat import check_media_type, told
from svir_proxy.server.client_watch import ClientWatch
from svir_proxy.server.content_rules import ContentRules
from svir_proxy.server.deprecation import Deprecation
from svir_proxy.server.failover import Failover
from svir_proxy.server.http import Headers, beside, fields, header, stopped
from svir_proxy.server.passing import Passed, PassedAnswer, Passing
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.quotas.passed_tokens import PassedMeter
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.routing import in_order
from svir_proxy.server.upload import Upload
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings

PASSED: Final = "POST /v1/{completions, embeddings, rerank, moderations, responses, audio/*, images/*}"
"""The endpoints in words."""
_PATH: Final = re.compile(
    r"/(?:completions|embeddings|rerank|moderations|responses|(?P<media>audio|images)(?:/[A-Za-z0-9_-]+)+)"
)
"""No dots: what goes on to a server as a path leads nowhere else there."""
_RESPONSES: Final = "/responses"
_FORM: Final = "multipart/form-data"


def is_passed(path: str) -> bool:
    """Whether *path*, below /v1, is one of the endpoints."""
    return _PATH.fullmatch(path) is not None


class PassThrough:
    """The routes. Raises ProxyError for an answer that has not begun, ClientGone where nobody waits for one."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        breakers: Breakers,
        *,
        access: Access | None = None,
        rules: ContentRules | None = None,
        deprecation: Deprecation | None = None,
    ) -> None:
        self._limit = settings.server.max_request_bytes
        self._origins = frozenset(settings.server.cors_origins)
        self._commit_after = settings.streaming.commit_after
        self._failover_seconds = settings.routing.failover_seconds
        self._catalog = catalog
        self._breakers = breakers
        self._access = access
        self._rules = rules
        self._deprecation = deprecation

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, record: RequestRecord
    ) -> None:
        """Answer one request; *headers* go with the answer, whatever it is."""
        field = self._field(scope, self._alone(scope["path"], record.key))
        declared = header(scope, b"content-length")
        upload = Upload(receive, field, int(declared[:20]) if declared.isdigit() else None, self._limit)
        await upload.look()
        record.model = upload.model
        given = {"content-type": header(scope, b"content-type"), "accept": header(scope, b"accept") or "*/*"}
        request = Passed(scope["path"], given, upload)
        with ClientWatch(scope if upload.is_whole else {}, upload.after) as client:
            if self._access is not None:
                request = await _let_in(self._access, request, headers, record)
            if self._deprecation is not None:
                self._deprecation.tell(upload.model, record.key, headers, record.may)
            routes = await self._catalog.routes(upload.model, record.may)
            if self._rules is not None:
                self._rules.check_passed(request.path, record.key, upload.model, routes)
            if len(routes) > 1:
                failover = self._failover(request, _in_order(routes, scope, record), headers, record)
                await self._answer(failover, client, send, headers, record)
                return
            upstream = routes[0].upstream
            record.backend = upstream.name
            headers.append(upstream.header)
            passing = _passing(request, routes[0], record)
            if (places := upstream.places) is None:
                await self._answer(passing, client, send, headers, record)
            else:
                async with places:
                    await self._answer(passing, client, send, headers, record)

    def _alone(self, path: str, key: str | None) -> str:
        """Why a request to *path* may name one model only; ``""``: it may name others."""
        if self._access is not None and self._access.is_bound(key):
            return "The key that was shown may use some models only"
        if self._rules is not None and self._rules.tells_models_apart(path):
            return "Answers of some models are under the operator's rules"
        return ""

    def _field(self, scope: Scope, alone: str) -> ModelField:
        """What finds the model in the request's body. *alone*: see `ModelInJson`."""
        media = header(scope, b"content-type")
        if media.partition(";")[0].strip().lower() != _FORM:
            check_media_type(fields(scope))
            return ModelInJson(alone=alone)
        found = _PATH.fullmatch(scope["path"])
        assert found is not None
        if not found["media"]:
            raise ProxyError("unsupported_media_type", f"The content-type must be application/json, not {_FORM!r}.")
        encoding = header(scope, b"content-encoding").lower()
        if encoding not in ("", "identity"):
            raise ProxyError("unsupported_media_type", f"The content-encoding {encoding!r} is not read.")
        self._check_origin(scope)
        boundary = form_boundary(media)
        if boundary is None:
            raise ProxyError("unsupported_media_type", "The content-type of the form has no boundary that can be read.")
        return ModelInForm(boundary)

    def _check_origin(self, scope: Scope) -> None:
        """A page of any origin can send a form without asking; JSON it cannot."""
        origin = header(scope, b"origin")
        if origin and not self._origins & {origin, "*"}:
            raise ProxyError(
                "forbidden_origin",
                f"Pages of {origin!r} may not send forms here; list it under server.cors_origins to allow it.",
            )

    def _failover(
        self, request: Passed, routes: list[Route], headers: Headers, record: RequestRecord
    ) -> Failover[Passed, PassedAnswer]:
        """*request* on its way to the first of *routes* that answers it; *headers* and *record* tell which."""
        before = tuple(headers)

        def tell(upstream: Upstream) -> None:
            record.backend = upstream.name
            headers[:] = (*before, upstream.header)

        async def passing(request: Passed, route: Route) -> Passing:
            return _passing(request, route, record)

        return Failover(
            request,
            routes,
            exchange=passing,
            on_asked=tell,
            breakers=self._breakers,
            is_away=self._catalog.is_away,
            seconds=self._failover_seconds if request.upload.is_whole else 0.0,
        )

    async def _answer(
        self,
        passing: Passing | Failover[Passed, PassedAnswer],
        client: ClientWatch,
        send: Send,
        headers: Headers,
        record: RequestRecord,
    ) -> None:
        def more() -> Headers:
            return [*(passing.headers and beside(headers, passing.headers)), *told(passing.notes)]

        answer = PassedAnswer(send, lambda: [*headers, *more()], self._commit_after, passing.request.meter)
        try:
            record.error = await passing.run(answer)
        except asyncio.CancelledError:
            if client.gone:
                answer.abandon()
            elif answer.has_output:
                record.status, record.error = answer.status, stopped()
                await answer.break_off(record.error)
            raise
        record.notes, record.stream = passing.notes, answer.is_stream
        if record.error is not None:
            if record.error.kind == "model_not_found":
                record.error = self._catalog.gone(record.model, record.error, record.may)
            if not answer.has_output:
                headers += more()
                raise record.error
        record.status = answer.status
        if record.error is None or await answer.break_off(record.error):
            client.release()
            await answer.end()


def _passing(request: Passed, route: Route, record: RequestRecord) -> Passing:
    return Passing(request, route) if record.trace is None else record.trace.passing(request, route)


async def _let_in(access: Access, request: Passed, headers: Headers, record: RequestRecord) -> Passed:
    """*request* under the limits of its key; raises ProxyError."""
    upload = request.upload
    access.check(record, upload.model)
    media = request.headers["content-type"].partition(";")[0].strip().lower()
    # Of a form's bytes most are a file's, which say nothing about tokens.
    meter = PassedMeter(None if media == _FORM else lambda: upload.came)
    notes = await access.admit(record, headers, lambda: meter)
    return request._replace(meter=None if record.meter is None else meter, notes=notes)


def _in_order(routes: tuple[Route, ...], scope: Scope, record: RequestRecord) -> list[Route]:
    """Chance decides, but for responses, whose history is with the server: a client's go to the same."""
    key = None
    if scope["path"] == _RESPONSES:
        client = scope.get("client") or ("",)
        key = hashlib.blake2b(
            f"{record.key or client[0]}\0{record.model}".encode("utf-8", "replace"), digest_size=16
        ).digest()
    return in_order(routes, lambda route: route.upstream.backend, key)
