"""The process of one run of a suite. Its foreman tells it what to play over its standard input, and grants it slots."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

from evopolicygym.config import StrictModel
from evopolicygym.execution.ray.cluster import ClusterInfo
from evopolicygym.judge.state import Phase
from evopolicygym.runs import service
from evopolicygym.runs.casting import Cast, cast
from evopolicygym.runs.driver import drive
from evopolicygym.runs.look import has_begun, look
from evopolicygym.runs.ownership import BY_HAND, Owner, own
from evopolicygym.runs.settings import Settings
from evopolicygym.sandbox import kernel
from evopolicygym.suites.log import STOPPED
from evopolicygym.suites.sharing import SharedSlots, SharedWaiting

POLL_S: Final = 0.02


class Brief(StrictModel):
    """From the foreman: the run, how many slots there are (with Ray: of which seats), where its sockets are, and who
    the foreman is."""

    root: Path
    settings: Settings
    slots: int
    seats: ClusterInfo | None
    slots_socket: int
    talk_socket: int
    foreman: int


def main() -> None:
    brief = Brief.model_validate_json(sys.stdin.buffer.read())
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != brief.foreman:
        sys.exit(STOPPED)  # it died before we asked to die with it
    slots, talk = SharedSlots(_own(brief.slots_socket), brief.slots), _own(brief.talk_socket)
    given = dict(brief.settings)
    if _needs_its_agent(brief.root):
        assert brief.settings.agent is not None
        who = cast(brief.settings.agent)
        with own(brief.root, who.facts(brief.root), slots, brief.seats, **given) as owner:
            asyncio.run(_play(owner, who, SharedWaiting(talk, provider(who))))
    else:
        SharedWaiting(talk, "").agent_is_gone()
        with own(brief.root, BY_HAND, slots, brief.seats, **given) as owner:
            service.finish(owner)


def _own(number: int) -> socket.socket:
    """Ours alone: neither workers nor agents inherit it."""
    os.set_inheritable(number, False)
    return socket.socket(fileno=number)


def _needs_its_agent(root: Path) -> bool:
    """Not for hidden scoring alone. A turn that was interrupted is the agent's to account for, also when its budget
    was spent in it."""
    if not has_begun(root):
        return True
    state = look(root)
    return state.phase is Phase.OPEN or (state.phase is Phase.CLOSED and state.prompted_at is not None)


async def _play(owner: Owner, who: Cast, company: SharedWaiting) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(_leave(owner)))
    await drive(owner, lambda api: who.player(owner.place, api), who.settings.allowance, company, who.prices)


async def _leave(owner: Owner) -> None:
    """When the submission under way has its verdict: what an agent paid for is not left half done."""
    while owner.judge.state.running:
        await asyncio.sleep(POLL_S)
    os._exit(STOPPED)


def provider(who: Cast) -> str:
    """Whom the agent's model is asked of: runs of one provider share its rate limits."""
    return ",".join(sorted(who.client.allowed_hosts(who.settings.base_url))) or who.client.name
