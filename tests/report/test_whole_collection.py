"""When every task was played and costs are known there is a ranking, and a Pareto front."""

from __future__ import annotations

from pages import read, source, write_run

from evopolicygym.reference import paper
from evopolicygym.report.gather import gather
from evopolicygym.report.page import write_page


def test_standings_and_costs_are_drawn(tmp_path):
    for i, task in enumerate(paper.core16()):
        for agent, dollars in (("cheap", 1.0), ("dear", 20.0)):
            score = paper.published()[task]["random"] + (1.0 if agent == "dear" else 0.0)
            written = write_run(
                tmp_path / "runs" / f"{i}-{agent}", [source("x = 1\n", validation=score)], task=task, agent=agent
            )
            written.facts["usage"] = {"dollars": dollars}
            written.rewrite()
    drawn = write_page(gather([tmp_path / "runs"], tmp_path), tmp_path / "report.html")
    assert {"standings-1", "cost-1"} <= {figure.name for figure in drawn}
    text = "".join(read(tmp_path / "report.html").text)
    assert "dollars per run" in text and "core16: 16 tasks" in text and "normalised score" in text
