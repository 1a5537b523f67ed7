"""Every Core16 task passes the conformance kit that users get."""

from __future__ import annotations

import pytest

from evopolicygym.execution.conformance import check_task
from evopolicygym.tasks.registry import CORE16_ORDER, core16, find_task


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_core16(slug):
    findings = check_task(core16()[f"core16/{slug}"], n_cases=1)
    assert [finding for finding in findings if not finding.ok] == []


def test_a_gymnasium_environment():
    findings = check_task(find_task("LunarLander-v3"), n_cases=1)
    assert [finding for finding in findings if not finding.ok] == []
