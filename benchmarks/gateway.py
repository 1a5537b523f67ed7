"""Measures what the model gateway adds to a call: against a direct connection to the same scripted server.

Model server, gateway and client are three processes, as in a run. Direct calls and calls through the gateway alternate
on connections that stay open, so that both meet the same load of the machine. A pause before each call lets the gateway
finish recording the one before: without it, that work slows the direct call, and the gateway seems faster than it is.

``python benchmarks/gateway.py``; ``--calls 2000`` for more. docs/agents.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from evopolicygym.gateway.call_limits import CallLimits
from evopolicygym.gateway.metering import ModelMeter
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.gateway.server import Gateway
from evopolicygym.gateway.upstream import ModelServer

TESTS: Final = Path(__file__).resolve().parents[1] / "tests" / "agents"
KEY: Final = "a-key-that-opens-nothing"
WARM_UP: Final = 20
PAUSE_S: Final = 0.02
STREAMS: Final = 64
PATH: Final = "/v1/chat/completions"


def serve_model(ready: Connection) -> None:
    sys.path.insert(0, str(TESTS))
    from scripted_model import ScriptedModel  # type: ignore[import-not-found]

    with ScriptedModel() as model:
        ready.send(model.url)
        ready.recv()


def serve_gateway(url: str, folder: str, ready: Connection) -> None:
    """Count and record calls as a run does."""
    meter = ModelMeter(CallLimits(), {}, Path(folder) / "calls.jsonl")
    gateway = Gateway([ModelServer(url, KEY)], meter, sink=ExchangeStore(Path(folder), {"key": KEY}))
    ready.send((gateway.urls[0], gateway.token))
    ready.recv()
    gateway.close()


def body(size: int, stream: bool) -> str:
    """Return a call with a conversation of about so many bytes."""
    talk = [{"role": "user", "content": "x" * 1000} for _ in range(max(1, size // 1000))]
    return json.dumps({"model": "m", "messages": talk, "stream": stream, "stream_options": {"include_usage": True}})


def caller(url: str, key: str) -> Callable[..., tuple[float, float]]:
    """Return what makes a call on one connection and returns milliseconds until the first byte and the last."""
    server = urlsplit(url)
    assert server.hostname
    connection = HTTPConnection(server.hostname, server.port)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def call(text: str, pause_s: float = 0.0) -> tuple[float, float]:
        time.sleep(pause_s)
        began = time.perf_counter()
        connection.request("POST", PATH, text, headers)
        response = connection.getresponse()
        response.read(1)
        first = time.perf_counter()
        response.read()
        return 1000 * (first - began), 1000 * (time.perf_counter() - began)

    return call


def compare(direct: tuple[str, str], through: tuple[str, str], calls: int, size: int, stream: bool) -> None:
    text = body(size, stream)
    makers = [caller(*direct), caller(*through)]
    rows = [[make(text, PAUSE_S) for make in makers] for _ in range(calls + WARM_UP)][WARM_UP:]
    kind = f"{'stream' if stream else 'answer'}, {size // 1000} kB asked"
    for name, which in (("first byte", 0), ("whole", 1)):
        straight, carried = ([row[way][which] for row in rows] for way in (0, 1))
        added = statistics.median(after - before for before, after in zip(straight, carried, strict=True))
        print(
            f"{kind:24} {name:10}  direct {statistics.median(straight):6.2f} ms   "
            f"gateway {statistics.median(carried):6.2f} ms   added {added:5.2f} ms"
        )


def crowd(way: tuple[str, str], calls: int) -> float:
    """Return calls per second with 64 streams at a time."""
    text = body(10_000, stream=True)

    def work(_: int) -> None:
        call = caller(*way)
        for _ in range(max(1, calls // STREAMS)):
            call(text)

    began = time.perf_counter()
    with ThreadPoolExecutor(STREAMS) as pool:
        list(pool.map(work, range(STREAMS)))
    return STREAMS * max(1, calls // STREAMS) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300, help="calls each way")
    calls = parser.parse_args().calls
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        model_end, theirs = processes.Pipe()
        model = processes.Process(target=serve_model, args=(theirs,), daemon=True)
        model.start()
        url = model_end.recv()
        gateway_end, theirs = processes.Pipe()
        gateway = processes.Process(target=serve_gateway, args=(url, folder, theirs), daemon=True)
        gateway.start()
        through = gateway_end.recv()
        direct = (url, KEY)
        for size, stream in ((1_000, False), (1_000, True), (200_000, True)):
            compare(direct, through, calls, size, stream)
        rates = [crowd(way, calls) for way in (direct, through)]
        print(f"{STREAMS} streams at a time: direct {rates[0]:.0f}, gateway {rates[1]:.0f} calls/s")
        for end, process in ((gateway_end, gateway), (model_end, model)):
            end.send(None)
            process.join()


if __name__ == "__main__":
    main()
