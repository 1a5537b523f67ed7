"""The check of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from evopolicygym.sandbox.policy.jail import Level
    from evopolicygym.sandbox.probes import Probe

HEALTH: Final = ("versions", "imports", "simulators")  # sections that scores depend on


@dataclass(frozen=True)
class MachineReport:
    """Abilities of this machine. ``system`` describes it; ``checks`` are results by section: isolation, agents,
    versions, imports, simulators, rendering, each with ``name``, ``ok``, ``detail`` and ``remedy``; ``level`` is the
    best isolation level of policies that works, None if there is none; ``speed`` has measurements of it."""

    system: Mapping[str, Any]
    checks: Mapping[str, Sequence[Probe]]
    level: Level | None
    speed: Mapping[str, float]

    @property
    def publishable(self) -> bool:
        """Whether results of this machine are publishable: level A or B works, and no package or simulator is broken.
        Rendering and the isolation of agents do not count."""
        return self.level is not None and all(check.ok for name in HEALTH for check in self.checks[name])

    @property
    def policy_residues(self) -> tuple[str, ...]:
        """Return what policies can still do at this level."""
        from evopolicygym.sandbox.policy.jail import Level, residues

        return residues(self.level or Level.NONE)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `doctor --json` prints it."""
        facts = {"level": self.level, "policy_residues": self.policy_residues, "publishable": self.publishable}
        checks = {name: [asdict(check) for check in section] for name, section in self.checks.items()}
        return {"system": self.system, **facts, "speed": self.speed, **checks}


def check_machine() -> MachineReport:
    """Check what this machine can do, by using it: isolation, pinned versions, imports, simulators and rendering. This
    is the command `evopolicygym doctor`, and takes some seconds.

    Returns:
        A ``MachineReport``: ``publishable``, the isolation ``level`` of policies, and ``checks`` by section, each with
        ``name``, ``ok``, ``detail`` and the ``remedy``.

    >>> import evopolicygym
    >>> report = evopolicygym.check_machine()
    >>> report.publishable, [check.remedy for check in report.checks["simulators"] if not check.ok]
    (True, [])
    """
    from evopolicygym.execution.machine_checks import check_all, policy_level, system_facts
    from evopolicygym.sandbox.probes import measure_jail

    checks = check_all()
    level = policy_level(checks["isolation"])
    return MachineReport(system_facts(), checks, level, measure_jail(level) if level else {})
