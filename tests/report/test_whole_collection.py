"""When every task was played and costs are known there is a ranking, and a Pareto front."""

from __future__ import annotations

from report_helpers import read, result, source, whole_collection, write_run

from evopolicygym.reference import paper
from evopolicygym.report.page import write_page
from evopolicygym.report.report_data import collect_report
from evopolicygym.tasks.ids import comparable_id


def test_standings_and_costs_are_drawn(tmp_path):
    drawn = write_page(collect_report([whole_collection(tmp_path / "runs")], tmp_path), tmp_path / "report.html")
    assert {"standings-1", "demands-1", "cost-1"} <= {figure.name for figure in drawn}
    text = "".join(read(tmp_path / "report.html").text)
    assert "dollars per run" in text and "core16: 16 tasks" in text and "normalised score" in text
    assert "core16: other aggregates" in text and "cheap: synthesis tasks" in text


def test_published_rows_follow_the_rules_of_the_leaderboard(tmp_path):
    """Beside runs on the paper's cases under its budget they are entrants; otherwise they stand apart."""
    for budget in (128, 64):
        steps = [source("x = 1\n", validation=-80.0)]
        written = write_run(tmp_path / "runs" / str(budget), steps, budget=budget, task="core16/acrobot")
        cases = {"validation_cases": 16, "heldout_cases": 32}
        written.facts["options"] |= cases | {"text": "brief"}
        written.facts["checkpoints"][0]["validation"] = result([-80.0] * 16)
        written.facts["outcome"]["heldout"] = result([-80.0] * 32)
        facts = {"budget": budget, "text": "brief", **cases}
        written.facts["ids"] |= {"comparable_id": comparable_id(facts), "fingerprint": facts}
        written.rewrite()
    write_page(collect_report([tmp_path / "runs"], tmp_path, with_paper=True), tmp_path / "report.html")
    text = "\n".join(read(tmp_path / "report.html").text)
    mixed, apart = text.split("Board 2")
    assert "the paper's" in apart.split("Structure of the selected code")[1]
    assert f"{paper.best_agent('core16/acrobot')} (paper)" in mixed and "For reference only" not in mixed
    assert "(paper)" not in apart.split("P(first) from")[0] and "For reference only" in apart
    write_page(collect_report([tmp_path / "runs"], tmp_path), tmp_path / "report.html")
    text = "\n".join(read(tmp_path / "report.html").text)
    assert "(paper)" not in text and "For reference only" not in text
