"""`evopolicygym agent`: list agents, and check whether they can run on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from evopolicygym.agents.readiness import Readiness
from evopolicygym.agents.turn import Turn
from evopolicygym.api.agents import check_agent, check_model_server, summarise_agents, try_agent
from evopolicygym.cli.options import Json, pair, refuse_unused
from evopolicygym.cli.output import print_hint, print_json, print_table, stdout

if TYPE_CHECKING:
    from evopolicygym.gateway.abilities import ServerAbilities

MODELS_SHOWN: Final = 8
LIVE_CHARACTERS: Final = 200
app = typer.Typer(no_args_is_help=True, help="List and check agents.")


@app.command("list")
def list_agents(json: Json = False) -> None:
    """List the built-in agents and the supported clients. Any program can be an agent, and so can a client file."""
    agents = summarise_agents()
    if json:
        print_json([asdict(agent) for agent in agents])
        return
    columns = {
        "name": "name",
        "title": "title",
        "proven_version": "tested version",
        "keys": "keys",
        "install": "install",
    }
    agents.sort(key=lambda agent: agent.program is not None)
    rows = ([_cell(getattr(agent, name)) for name in columns] for agent in agents)
    print_table(tuple(columns.values()), rows, indent="", optional=("install", "tested version"))
    print_hint(
        "`agent check NAME` says whether it can run here. `run TASK --agent command -- PROGRAM` runs any program."
    )


@app.command()
def check(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name from `agent list`, or a client file (TOML).")],
    live: Annotated[bool, typer.Option("--live", help="Play one tiny turn in the sandbox, with the model.")] = False,
    model: Annotated[str | None, typer.Option(help="Model, as the agent's client names it.")] = None,
    model_url: Annotated[
        str | None, typer.Option(help="Base URL of the model's API; without --live, it is asked what it can do.")
    ] = None,
    model_ca: Annotated[
        Path | None, typer.Option(help="File with certificates (PEM) to trust at the model's API, too.")
    ] = None,
    model_header: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE: a header of calls to the model. Repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Check an agent's program, version, Node and key, and say what is missing. Exit code 1 if it cannot run."""
    if not live and model_url is None:
        refuse_unused(context, ("model", "model_ca", "model_header"), "needs --live or --model-url: no model is asked")
    readiness = check_agent(name, model_url=model_url)
    headers = dict(pair(text, "--model-header NAME=VARIABLE") for text in model_header or [])
    given: dict[str, Any] = {"model": model, "model_ca": model_ca, "model_headers": headers}
    turn = None
    if live and readiness.ready:
        turn = try_agent(name, model_url=model_url, **given)
    server = check_model_server(name, model_url, **given) if model_url is not None and not live else None
    if json:
        live_facts = {"live": asdict(turn)} if turn else {}
        server_facts = {"server": asdict(server)} if server else {}
        print_json(asdict(readiness) | {"ready": readiness.ready} | live_facts | server_facts)
    else:
        _show(readiness)
        if turn:
            _show_turn(turn)
        if server:
            _show_server(server)
    if not readiness.ready or (turn and turn.failure) or (server and not server.is_usable):
        raise typer.Exit(1)


def _show_turn(turn: Turn) -> None:
    if turn.failure:
        stdout.print(f"  live        FAILED ({turn.failure.kind}) after {turn.wall_s:.1f} s: {turn.failure.text}")
        return
    served = f", model {turn.model}" if turn.model else ""
    tokens = f", {turn.usage.output} output tokens" if turn.usage and turn.usage.output is not None else ""
    stdout.print(
        f"  live        answered in {turn.wall_s:.1f} s: {turn.text.strip()[:LIVE_CHARACTERS]!r}{served}{tokens}"
    )


def _show_server(server: ServerAbilities) -> None:
    needs = f" by this agent, which needs {server.needed}" if server.needed else ""
    stdout.print(f"{server.url}: {'usable' if server.is_usable else 'not usable'}{needs}")
    listed = "no list" if server.models is None else ", ".join(server.models[:MODELS_SHOWN]) or "none"
    stdout.print(f"  {'models':<18} {listed}")
    for ability in server.apis:
        stdout.print(f"  {ability.api:<18} {ability.words}")


def _show(readiness: Readiness) -> None:
    facts = (
        {"program": "built in", "key": readiness.key or "none"}
        if readiness.ships
        else {
            "program": readiness.program or "not found",
            "version": f"{readiness.version or 'unknown'} (tested: {readiness.proven_version or 'none'}, oldest: "
            f"{readiness.minimum_version or 'any'})",
            "node": f"{readiness.node or 'none'} (needs {readiness.node_needed} or newer)"
            if readiness.node_needed
            else "not needed",
            "unattended": f"yes, tested with {readiness.proven_version}"
            if readiness.proven_version
            else "by its definition",
            "key": readiness.key or "none",
        }
    )
    stdout.print(f"{readiness.title}: {'ready' if readiness.ready else 'not ready'}")
    for label, value in facts.items():
        stdout.print(f"  {label:<11} {value}")
    for line in readiness.missing:
        stdout.print(f"  MISSING     {line}")
    for line in readiness.remarks:
        stdout.print(f"  note        {line}")


def _cell(value: Any) -> str:
    return " | ".join(value) if isinstance(value, tuple) else str(value or "")
