"""One client request and what is asked upstream for it: rarely more than once, never after any output.

Asked again is a request that was rejected for something an answer can do without, rewritten with what the rejection
taught; and one whose answer was held because the server does not see to a demand, and does not meet it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Final

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.expectation import Expectation
from svir_proxy.request import UpstreamRequest, rewrite_request
from svir_proxy.request.correct import correct
from svir_proxy.request.retry import apply_learned, learn_from
from svir_proxy.response.events import Noted
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.server.answer import Answer
from svir_proxy.server.call_memory import CallMemory
from svir_proxy.server.catalog import Route
from svir_proxy.server.held_answer import HeldAnswer
from svir_proxy.server.http import Headers
from svir_proxy.server.interruption import Interruption
from svir_proxy.server.learned import Facts, Learned
from svir_proxy.server.quotas.tokens import Meter, Metered
from svir_proxy.server.reception import Reception, Watch
from svir_proxy.server.transport import UpstreamResponse

_OPTIONAL: Final = "request.optional_fields."


class Exchange:
    """One request on its way to one backend; raises ProxyError where it cannot go."""

    def __init__(self, request: ClientRequest, route: Route, learned: Learned, calls: CallMemory) -> None:
        upstream = route.upstream
        profile = upstream.profile
        self._before = request.notes  # of what was changed before the request was rewritten
        if calls.kept and (body := calls.restore(upstream.name, request.body)) is not request.body:
            request = replace(request, body=body)
            self._before = (*self._before, "history.extra_content=restored")
        if learned.known:
            profile = learned.apply(profile, upstream.name, route.model)
        self.request = request
        self._route = route
        self._upstream = upstream
        self._learned = learned
        self._calls = calls
        self._profile = profile
        self._rewritten = rewrite_request(request, profile, route.model)
        self._retries: tuple[str, ...] = ()
        self._more: Mapping[str, str] | None = None  # headers that go along
        self._begun: Awaitable[UpstreamResponse] | None = None  # what is sent already
        self.meter: Meter | None = None
        """Counts what comes of it; None: nobody does."""
        self.headers: Headers = []
        """Headers of the server's last answer that are passed on."""
        self.asked = "" if route.listed else route.model
        """The model asked for, where no list has it and any may answer."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed in the request."""
        if not self._before and not self._retries:
            return self._rewritten.notes
        return (*self._before, *self._rewritten.notes, *self._retries)

    def begin(self) -> None:
        """Ask already, as far as that takes no waiting: what the answer needs is made while the server is at work.

        `run` must follow in the same turn of the loop.
        """
        try:
            self._begun = self._send(self._rewritten.body)
        except ProxyError:
            self._begun = None  # `run` tries again, and tells why

    async def run(self, answer: Answer) -> ProxyError | None:
        """Fill *answer*; the error where it is not whole."""
        watch = Watch(answer, self._upstream.backend.timeouts)
        watch.start()
        try:
            if self._rewritten.expectation is None:
                error = await self._ask(self._rewritten.body, answer, watch)
                if error is None:
                    return None
                is_last = answer.has_output
            else:
                error, is_last = await self._try(answer, watch)
            news = {} if error is None or is_last else learn_from(error, self._rewritten.body, self._profile)
            again = self._rewrite(news)
            if error is None or again is None or again.body == self._rewritten.body:
                return error
            self._rewritten = again
            self._retries = tuple(_retry_note(path) for path in sorted(news))
            error, _ = await self._try(answer, watch)
            if error is None:
                self._learned.learn(self._upstream.name, self._route.model, news)
            return error
        finally:
            watch.stop()

    async def _try(self, answer: Answer, watch: Watch) -> tuple[ProxyError | None, bool]:
        """Ask as the request stands, and see to its demand; the error, and whether asking again is out of question."""
        expectation = self._rewritten.expectation
        if expectation is None:
            error = await self._ask(self._rewritten.body, answer, watch)
            return error, answer.has_output
        held = HeldAnswer(answer, expectation)
        error = await self._ask(self._rewritten.body, held, watch)
        if error is not None:
            return error, held.has_output
        return await self._meet(expectation, held, answer, watch), True

    def _rewrite(self, news: Facts) -> UpstreamRequest | None:
        """The request rewritten with what was learned; None where that leads nowhere."""
        if not news:
            return None
        self._profile = apply_learned(self._profile, news)
        try:
            return rewrite_request(self.request, self._profile, self._route.model)
        except ProxyError:
            return None  # the server's own words say more than a refusal that is derived from them

    async def _meet(
        self, expectation: Expectation, held: HeldAnswer, answer: Answer, watch: Watch
    ) -> ProxyError | None:
        """Let a held answer out once it is what was demanded; ask once more where it is not."""
        problem = held.unmet()
        if problem is not None and not held.is_cut:
            body = correct(
                self._rewritten.body, expectation, self.request, self._profile, problem=problem, said=held.text
            )
            self._retries = (*self._retries, f"{expectation.fact}=asked_again")
            second = HeldAnswer(answer, expectation)
            watch.restart()
            failure = await self._ask(body, second, watch)
            if failure is None:
                held, problem = second, second.unmet()
            else:
                answer.take([Noted(f"{expectation.fact}=repeat_failed:{failure.kind}")])
        if problem is not None and self._upstream.backend.strict:
            demand = expectation.fact.partition(".")[0]
            return ProxyError(
                "unsupported_parameter",
                f"The model did not do what {demand} demands: {problem}. {self._profile.server} does not"
                " enforce it, and the backend is strict.",
                param=demand,
            )
        if problem is not None:
            answer.take([Noted(f"{expectation.fact}=unmet")])
        held.release()
        return None

    async def _ask(self, body: Body, answer: Answer, watch: Watch) -> ProxyError | None:
        """Ask once; the error where there is no whole answer."""
        upstream = self._upstream
        if self.meter is not None:
            self.meter.asked = True
            answer = Metered(answer, self.meter)
        try:
            response = await self._respond(body, watch)
            if upstream.passed_names:
                self.headers = upstream.passed_headers(response)
            if not 200 <= response.status < 300:
                return await upstream.read_error(response, self._error_reader())
            try:
                decoder = upstream.decoder(response)
            except ProxyError:
                response.close()
                raise
        except ProxyError as error:
            return error
        normalizer = self._normalizer()
        limit = upstream.limits.max_answer_bytes
        if decoder is None and (whole := response.at_hand(limit)) is not None:
            answer.take(normalizer.receive_whole(whole))
            failed = normalizer.error
        else:
            failed = await Reception(normalizer, answer, watch, decoder, limit).receive(response)
        if normalizer.call_extras:
            self._calls.keep(upstream.name, normalizer.call_extras)
        return failed

    def _error_reader(self, make: type[ErrorReader] = ErrorReader) -> ErrorReader:
        return self._upstream.error_reader(self.request, make)

    def _normalizer(self, make: type[StreamNormalizer] = StreamNormalizer) -> StreamNormalizer:
        upstream = self._upstream
        extras = upstream.backend.expose_extras
        return make(self.request, self._profile, upstream.normalizer_limits, self._error_reader, extras=extras)

    def _send(self, body: Body) -> Awaitable[UpstreamResponse]:
        return self._upstream.chat(body, self._route.model, self.request.blobs, self._more)

    async def _respond(self, body: Body, watch: Watch) -> UpstreamResponse:
        """Send *body* and await the head of the response, for as long as *watch* says; raises ProxyError."""
        begun, self._begun = self._begun, None
        interruption = Interruption()
        watch.tell(interruption.make)
        try:
            return await (begun or self._send(body))
        except asyncio.CancelledError:
            if interruption.is_all():
                raise watch.error() from None
            raise
        finally:
            watch.tell(None)


def _retry_note(path: str) -> str:
    """How a second try is told, by the fact that was learned."""
    if path.startswith(_OPTIONAL):
        return f"retry.drop={path.removeprefix(_OPTIONAL)}"
    return f"retry={path.removeprefix('request.')}"
