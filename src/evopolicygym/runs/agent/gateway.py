"""Connect an agent to its model through the gateway: choose the servers, and count what each turn used.

The gateway is used if the client can be sent to another address and has an API key. A client that is logged in without
a key connects to its provider itself, through the proxy of its sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from evopolicygym.agents import definitions
from evopolicygym.agents.definitions import Client, Vendor, VendorAddress
from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.prices import Price
from evopolicygym.agents.turn import Turn
from evopolicygym.errors import UserError
from evopolicygym.gateway.call_limits import CallLimits
from evopolicygym.gateway.metering import ModelMeter, TurnCalls
from evopolicygym.gateway.patience import Patience, SharedWaits
from evopolicygym.gateway.recording.reader import ModelRecording
from evopolicygym.gateway.recording.replay import ReplayUpstream, nothing_recorded
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.gateway.server import Gateway, new_token
from evopolicygym.gateway.upstream import ModelServer
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import load
from evopolicygym.runs.agent.limits import SUITE_LIMIT, TurnProgress
from evopolicygym.runs.agent.process import AgentRunner, TurnRequest
from evopolicygym.runs.settings import AgentSettings

TOKEN: Final = "gateway token"  # stands in recordings and transcripts for the token
NO_KEY: Final = "replayed-calls-need-no-key"
KEYLESS: Final = "no-key"  # what a server without keys gets as one; clients insist on sending one


class ModelAccess(StrEnum):
    """How an agent reaches its model: through the gateway, or by itself with its own key or login. REPLAY: the gateway
    answers from a recording."""

    GATEWAY = "gateway"
    DIRECT = "direct"
    REPLAY = "replay"


@dataclass(frozen=True)
class ModelRoute:
    """One model server of an agent. ``variable`` is the one that holds its key, None for a server without keys."""

    vendor: Vendor
    variable: str | None
    server: ModelServer

    def at(self, base_url: str) -> VendorAddress:
        return VendorAddress(self.vendor, base_url)


def model_access(client: Client, settings: AgentSettings) -> ModelAccess | None:
    """Return how the agent reaches its model; None for an agent that needs none."""
    if model_routes(client, settings):
        return ModelAccess.REPLAY if settings.replay else ModelAccess.GATEWAY
    uses_model = client.keys or client.credentials or settings.base_url or settings.model
    return ModelAccess.DIRECT if uses_model else None


def model_routes(client: Client, settings: AgentSettings) -> tuple[ModelRoute, ...]:
    """Return the servers that the gateway carries calls to; an empty list for an agent without the gateway."""
    if not settings.gateway:
        return ()
    if client.name == definitions.COMMAND:
        return _routes_of_command(client, settings)
    available = client_keys(client, settings)
    vendor = client.vendor(settings.model, available)
    if vendor is None and settings.base_url is None:
        return ()
    vendor = vendor or Vendor(url=settings.base_url or "", keys=client.keys)
    variable = next((name for name in vendor.keys if name in available), None)
    if variable is None and client.keys:
        return ()
    return (_route(vendor, variable, settings, available.get(variable or "")),)


def client_keys(client: Client, settings: AgentSettings) -> dict[str, str]:
    """Return the keys of a client that are set here. A replay needs none, so each gets a worthless value. If none is
    set, the first key of the model's vendor counts as set in a replay and for a server of the user's own (Ollama,
    llama.cpp, vLLM), which may need no key."""
    keys = {name: value for name in client.keys if (value := os.environ.get(name))}
    if settings.replay is None and (keys or not _is_keyless(client, settings)):
        return keys
    vendor = client.vendor(settings.model, client.keys)
    first = next(iter(vendor.keys if vendor else client.keys), None)
    return dict.fromkeys(keys or ([first] if first else []), NO_KEY if settings.replay else KEYLESS)


def _is_keyless(client: Client, settings: AgentSettings) -> bool:
    """Whether calls go to an address of the user's own, without a key and without a login."""
    has_login = any((Path.home() / name).is_file() for name in client.credentials)
    return settings.gateway and settings.base_url is not None and not has_login


def with_recorded_address(settings: AgentSettings) -> AgentSettings:
    """Return the settings with the model's address from the recorded run: some clients need an address, although a
    replay does not connect to it."""
    if settings.replay is None or settings.base_url:
        return settings
    agent = load(settings.replay).agent
    address = agent.settings.get("base_url") if agent else None
    return settings.model_copy(update={"base_url": address}) if isinstance(address, str) else settings


def check_replay(client: Client, settings: AgentSettings) -> None:
    """Raise UserError if the agent's calls cannot be replayed."""
    if settings.replay is None:
        return
    if not ModelRecording(settings.replay).exists:
        raise nothing_recorded(settings.replay)
    if not model_routes(client, settings):
        raise UserError(
            f"{client.name} does not reach its model through the gateway here: a recording cannot answer its calls",
            "Leave --no-gateway out, name the model as in the recorded run, or leave --replay-model out.",
        )


def _routes_of_command(client: Client, settings: AgentSettings) -> tuple[ModelRoute, ...]:
    """Return the routes of a command, whose keys --agent-env names. With --model-url only the key of that server is
    allowed: a second key would go to the wrong server, or to the agent itself."""
    keys = [(vendor, name) for vendor in client.vendors for name in vendor.keys if name in settings.variables]
    if settings.base_url and len(keys) > 1:
        names = " and ".join(name for _, name in keys)
        raise UserError(
            f"--model-url is one server, and --agent-env names the keys of several: {names}",
            f"Name the key of {settings.base_url} alone; or leave --model-url out, and each key goes to its vendor; or "
            "give the agent all keys with --no-gateway.",
        )
    if settings.base_url and not keys:
        return (_route(Vendor(url=settings.base_url, keys=()), None, settings),)
    return tuple(_route(vendor, name, settings) for vendor, name in keys)


def _route(vendor: Vendor, variable: str | None, settings: AgentSettings, key: str | None = None) -> ModelRoute:
    if variable and key is None:
        key = NO_KEY if settings.replay else os.environ.get(variable)
    server = ModelServer(settings.base_url or vendor.url, key, variable_values(settings.headers), settings.ca_file)
    return ModelRoute(vendor, variable, server)


def variable_values(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers of calls with the values of the variables that they name: settings are published, values not."""
    if unset := [name for name in headers.values() if name not in os.environ]:
        raise UserError(f"the variable {unset[0]} is not set", "Set it, or leave its --model-header out.")
    return {header: os.environ[name] for header, name in headers.items()}


@dataclass(frozen=True)
class OpenGateway:
    """The gateway of one run, its recording, and the addresses that it gives the agent."""

    gateway: Gateway
    routes: tuple[ModelRoute, ...]
    store: ExchangeStore
    replay: ReplayUpstream | None = None

    def close(self) -> None:
        self.gateway.close()
        self.store.close()

    @property
    def base_url(self) -> str | None:
        """The address of the agent's model, None if it has several."""
        return self.gateway.urls[0] if len(self.routes) == 1 else None

    @property
    def vendors(self) -> tuple[VendorAddress, ...]:
        return tuple(route.at(url) for route, url in zip(self.routes, self.gateway.urls, strict=True))

    @property
    def keys(self) -> dict[str, str]:
        """Tokens that the agent's variables hold in place of keys."""
        return {route.variable: self.gateway.token for route in self.routes if route.variable}


def open_gateway(
    routes: tuple[ModelRoute, ...],
    settings: AgentSettings,
    paths: RunPaths,
    prices: dict[str, Price],
    waits: SharedWaits | None,
    secrets: Mapping[str, str],
) -> OpenGateway:
    """Start the gateway of a run. ``secrets`` are kept out of the recording of its calls."""
    limits = CallLimits(settings.tokens, settings.dollars, settings.requests)
    meter = ModelMeter(limits, prices, _calls_file(paths))
    patience = Patience(0.0) if settings.replay else Patience(60 * settings.patience_minutes, waits)
    token = new_token()
    headers = {f"header {name}": value for name, value in variable_values(settings.headers).items()}
    hidden = {**secrets, **headers, TOKEN: token}
    replay = (
        ReplayUpstream(settings.replay, paths.root, hidden, settings.replay_speed or 1.0) if settings.replay else None
    )
    store = ExchangeStore(paths.root, hidden)
    servers = [route.server for route in routes]
    try:
        gateway = Gateway(servers, meter, patience, store, (lambda _: replay) if replay else None, token)
    except BaseException:
        store.close()
        raise
    return OpenGateway(gateway, routes, store, replay)


def _calls_file(paths: RunPaths) -> Path:
    file = paths.model_calls
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


class MeteredAgent:
    """Plays the turns of an agent whose calls go through the gateway: the gateway's count is the turn's usage."""

    def __init__(self, agent: AgentRunner, opened: OpenGateway) -> None:
        self._agent, self._opened, self._gateway = agent, opened, opened.gateway

    def play_turn(self, request: TurnRequest) -> Turn:
        self._gateway.begin_turn(request.number)
        waited_before = self._gateway.patience.waited_s

        def waited_s() -> float:
            return self._gateway.patience.waited_s - waited_before

        def must_end(progress: TurnProgress) -> TurnFailure | None:
            failure = (
                self._has_diverged()
                or self._limit_is_hit()
                or request.must_end(self._progress(progress, request.number, waited_s))
            )
            if failure:
                self._gateway.end_turn()
            return failure

        turn = self._agent.play_turn(replace(request, must_end=must_end))
        if self._opened.replay:
            self._opened.replay.check()
        turn = replace(turn, wall_s=max(0.0, turn.wall_s - waited_s()))
        return replace(self._metered(turn, request.number), failure=self._limit_is_hit() or turn.failure)

    def recover_turn(self, request: TurnRequest) -> Turn:
        return self._metered(self._agent.recover_turn(request), request.number)

    def close(self) -> None:
        self._agent.close()
        self._opened.close()

    def _progress(self, progress: TurnProgress, number: int, waited_s: Callable[[], float]) -> TurnProgress:
        printed = progress.output_bytes
        return TurnProgress(
            None if printed is None else lambda: printed() + self._gateway.activity,
            lambda: self._metered(Turn(None, 0.0), number),
            waited_s,
            lambda: self._gateway.patience.waits_for,
        )

    def _metered(self, turn: Turn, number: int) -> Turn:
        calls: TurnCalls = self._gateway.meter.turn(number)
        facts = calls.facts(turn.usage)
        if self._opened.store.trouble:
            facts["not_recorded"] = self._opened.store.trouble
        if self._gateway.meter.suite_hit:
            facts[SUITE_LIMIT] = self._gateway.meter.suite_hit
        return replace(turn, usage=calls.usage or turn.usage, model=calls.model or turn.model, calls=facts)

    def _has_diverged(self) -> TurnFailure | None:
        replay = self._opened.replay
        return TurnFailure(FailureKind.CLIENT, "its replay ended") if replay and replay.divergence else None

    def _limit_is_hit(self) -> TurnFailure | None:
        meter = self._gateway.meter
        if meter.hit:
            return TurnFailure(FailureKind.LIMIT, f"its limit of {meter.hit} was used up")
        if meter.suite_hit:
            return TurnFailure(FailureKind.LIMIT, f"its suite's limit of {meter.suite_hit} was used up")
        return None
