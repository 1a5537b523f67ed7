"""Send calls to a model's server: the key is added here, answers stream, redirects are not followed."""

from __future__ import annotations

import re
import ssl
import sys
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from evopolicygym.errors import UserError
from evopolicygym.gateway import apis
from evopolicygym.gateway.bodies import BodyDecoder, decoded
from evopolicygym.gateway.exchange import GatewayRequest, ModelApi, UpstreamAnswer
from evopolicygym.gateway.redaction import SecretMask

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

CONNECT_S: Final = 30.0
SILENCE_S: Final = 1800.0  # without a byte from the server; models think for many minutes before they answer
KEPT_TRIED: Final = 8  # connections of earlier calls on which a call is tried, if the server closes one after the other
MAX_HEAD_BYTES: Final = 1 << 16
MAX_ERROR_BYTES: Final = 1 << 20
VERSIONS: Final = {ModelApi.ANTHROPIC_MESSAGES: "/v1", ModelApi.GEMINI: "/v1beta"}
TARGET_VERSION: Final = re.compile(r"/v\d+[a-z]*\d*(?=/)")
BASE_VERSION: Final = re.compile(r"/v\d+[a-z]*\d*$")
LOST_WITH_COMPRESSION: Final = ("content-encoding", "content-length")
NOT_PASSED: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "cookie", "set-cookie",
    # Some servers take the method, the path or the host from these, and not what was checked.
    "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix", "x-host",
    "x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url",
})  # fmt: skip


class UntrustedServer(OSError):
    """The server's certificate is not trusted: no call is sent, and waiting does not help."""


@dataclass(frozen=True)
class ModelServer:
    """Where a model is served. ``key`` is None for a server without keys; ``headers`` are added to each call;
    ``ca_file`` has certificates to trust beside those of the system."""

    base_url: str
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None

    @property
    def origin(self) -> str:
        url = urlsplit(self.base_url)
        return f"{url.scheme}://{url.netloc}"

    @property
    def path(self) -> str:
        """The path of the base URL, without a slash at its end."""
        return urlsplit(self.base_url).path.rstrip("/")

    def tls(self) -> ssl.SSLContext:
        """Return a context that checks certificates. SSL_CERT_FILE and SSL_CERT_DIR count, as OpenSSL has them."""
        context = ssl.create_default_context()
        if self.ca_file:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:  # SSLError is one
                raise UserError(
                    f"{self.ca_file} has no certificates that can be read: {error.strerror or error}",
                    "Give a file with certificates in PEM form.",
                ) from None
        return context

    @property
    def proxy(self) -> str | None:
        """The proxy of this process's environment for the server: HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY."""
        url = urlsplit(self.base_url)
        if urllib.request.proxy_bypass(url.netloc.rpartition("@")[2]) or url.hostname in ("127.0.0.1", "localhost"):
            return None
        return urllib.request.getproxies().get(url.scheme)


class NoAnswer(ConnectionError):
    """The server did not answer. ``resent``: as of an ``UpstreamAnswer``."""

    def __init__(self, reason: str, resent: int) -> None:
        super().__init__(reason)
        self.resent = resent


@dataclass
class _Sending:
    """How one call is sent. ``is_kept``: over a connection of an earlier call. ``resent``: how often the server closed
    such a connection instead of answering."""

    is_kept: bool = False
    resent: int = 0


class HttpUpstream:
    """The provider itself. Make it in the event loop that uses it."""

    def __init__(self, server: ModelServer, tls: ssl.SSLContext) -> None:
        import aiohttp
        from yarl import URL

        self._server, self._proxy, self._url = server, server.proxy, URL
        self._mask = SecretMask({**server.headers, "key": server.key or ""})
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_kept_connection)
        self._session = aiohttp.ClientSession(
            trace_configs=[trace],
            connector=aiohttp.TCPConnector(limit=0, ssl=tls, ttl_dns_cache=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
        )

    async def send(self, request: GatewayRequest) -> UpstreamAnswer:
        import aiohttp

        headers, target = apis.put_key(request.headers, request.target, self._server.key or "")
        path = self._server.path + versioned_target(self._server.path, request.api, target)
        url = self._url(self._server.origin + path, encoded=True)
        if url.raw_path_qs != (path or "/"):
            raise ValueError(f"{request.target!r} is no path and query")
        sending = _Sending()
        try:
            response = await self._response(request, url, headers | dict(self._server.headers), sending)
        except aiohttp.ClientConnectorCertificateError as error:
            raise UntrustedServer(f"its certificate is not trusted: {error.certificate_error}") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NoAnswer(f"{type(error).__name__}: {self.without_key(str(error))}", sending.resent) from error
        answered = passed_on({name: self._mask.header(value) for name, value in response.headers.items()})
        if response.status >= 400:
            return replace(await self._error(response, answered), resent=sending.resent)
        decoder, body = BodyDecoder(answered.get("content-encoding", ""), sys.maxsize), _body(response)
        if decoder.is_compressed:
            body = _decompressed(body, decoder)
            answered = {name: value for name, value in answered.items() if name not in LOST_WITH_COMPRESSION}
        return UpstreamAnswer(response.status, answered, self._mask.stream(body), sending.resent)

    async def _response(
        self, request: GatewayRequest, url: URL, headers: dict[str, str], sending: _Sending
    ) -> aiohttp.ClientResponse:
        """Send a call. If the server closes a connection of an earlier call instead of answering, send it again on
        another one: a server may close such a connection at any time (llama.cpp does after every stream)."""
        import aiohttp

        while True:
            sending.is_kept = False
            try:
                return await self._session.request(
                    request.method,
                    url,
                    headers=headers,
                    data=request.body if request.method == "POST" else None,
                    allow_redirects=False,
                    proxy=self._proxy,
                    trace_request_ctx=sending,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not sending.is_kept or sending.resent == KEPT_TRIED:
                    raise
                sending.resent += 1

    async def _error(self, response: aiohttp.ClientResponse, headers: dict[str, str]) -> UpstreamAnswer:
        """Return an error whole and without the key, which some servers quote."""
        body = b""
        with suppress(ConnectionError):  # a part of it says enough
            async for data in _body(response):
                body += data
                if len(body) > MAX_ERROR_BYTES:
                    break
        body = decoded(body, headers.pop("content-encoding", ""))
        if self._server.key:
            body = body.replace(self._server.key.encode(), apis.KEY.encode())
        body = self._mask.data(body)
        return UpstreamAnswer(response.status, headers | {"content-length": str(len(body))}, whole(body))

    def without_key(self, text: str) -> str:
        key = self._server.key
        return text.replace(key, apis.KEY) if key else text

    async def close(self) -> None:
        await self._session.close()


async def _note_kept_connection(_session: object, context: SimpleNamespace, _parameters: object) -> None:
    context.trace_request_ctx.is_kept = True


async def whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _body(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raise ConnectionError if it is cut."""
    import aiohttp

    try:
        async for data in response.content.iter_any():
            yield data
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
    finally:
        response.close() if not response.content.is_eof() else response.release()


async def _decompressed(body: AsyncIterator[bytes], decoder: BodyDecoder) -> AsyncIterator[bytes]:
    """Yield the body as it was before a server compressed it unasked: its client may not understand that, and secrets
    would pass unseen."""
    try:
        async for data in body:
            for piece in decoder.decode(data):
                yield piece
            if not decoder.is_readable:
                raise ConnectionError("its compressed answer is damaged")
    finally:
        if isinstance(body, AsyncGenerator):
            await body.aclose()


def versioned_target(base: str, api: ModelApi, target: str) -> str:
    """Return a call's path and query below the base URL's path, so that both together have the version of the API once:
    some clients add it to the base URL of Anthropic and Gemini, and some expect it there.

    >>> versioned_target("/v1", ModelApi.ANTHROPIC_MESSAGES, "/v1/messages")
    '/messages'
    >>> versioned_target("/gateway", ModelApi.ANTHROPIC_MESSAGES, "/messages")
    '/v1/messages'
    """
    of_base, of_target = BASE_VERSION.search(base), TARGET_VERSION.match(target)
    if of_base and of_target and of_base[0] == of_target[0]:
        return target.removeprefix(of_target[0])
    return target if of_base or of_target else VERSIONS.get(api, "") + target


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that concern the call and not one connection, with names in lower case."""
    lower = {name.lower(): value for name, value in headers.items()}
    named = {name.strip().lower() for name in lower.get("connection", "").split(",")}
    return {name: value for name, value in lower.items() if name not in NOT_PASSED | named}
