"""Every Core16 task passes the conformance kit that users get."""

from __future__ import annotations

import pytest

from conftest import one_of_each_kind
from evopolicygym.execution.conformance import check_task
from evopolicygym.tasks.registry import core16, find_task


@pytest.mark.parametrize("slug", one_of_each_kind())
def test_core16(slug):
    findings = check_task(core16()[f"core16/{slug}"], n_cases=1)
    assert [finding for finding in findings if not finding.ok] == []


def test_a_gymnasium_environment():
    findings = check_task(find_task("LunarLander-v3"), n_cases=1)
    assert [finding for finding in findings if not finding.ok] == []
