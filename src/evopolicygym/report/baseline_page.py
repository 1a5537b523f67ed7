"""Writes docs/baselines.md from records: scores at a run's budget, learning curves, and how to repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from evopolicygym.analysis.exchange_rate import exchange_rate
from evopolicygym.reference.anchors import stored_anchors
from evopolicygym.reference.baselines import BaselineRun, mean_and_deviation, scores_of
from evopolicygym.reference.curves import CurveRecord
from evopolicygym.reference.paper import HELDOUT_CASES, best_agent, published
from evopolicygym.report.baseline_figure import NAME

HEAD: Final = """\
# Baselines

<!-- Written by `python benchmarks/baselines.py page`; do not edit. -->

How do search methods and RL do on the same tasks and cases? This page is written from records. Nothing in it is
typed by hand.

## How do I repeat a row?

```
evopolicygym run core16/acrobot --agent ars --seed 0 --seeds paper          # one run of 128 episodes
evopolicygym suite run suites/baselines.toml --jobs 16 --parallel-runs 16   # all search rows
evopolicygym baseline curve core16/acrobot --algo ars --steps 1000000       # a learning curve
evopolicygym baseline curve core16/acrobot --algo ppo --steps 1000000       # pip install '.[rl]'
python benchmarks/baselines.py search --folder FOLDER --jobs 16 --seconds 1500
python benchmarks/baselines.py curves --folder FOLDER --jobs 16 --seconds 1500
python benchmarks/baselines.py curves --folder FOLDER --jobs 16 --agent ppo --agent sac --steps ppo=300000 --steps 50000
python benchmarks/baselines.py page --folder FOLDER                         # add the records, and write this page
```

All of them continue where they were interrupted. The methods are described in
[agents-builtin.md](agents-builtin.md#search-methods). `ppo`, `sac` (continuous actions) and `dqn` (discrete ones) are
those of Stable-Baselines3 with its own networks, on the features of the search methods, normalised by what was seen.
Training steps several environments at a time, in several processes where that is faster, with the same result. What is
measured is the mean action of PPO and SAC, a draw from PPO's distribution where actions are discrete, and DQN's best
action, computed by the same small network in numpy that the search methods submit: torch never enters a policy.
"""
FIGURE: Final = f"""
![Scores of agents and baselines against train episodes, one panel for each task](images/{NAME}.svg)

Grey shapes are the agents of the paper, squares the baselines after as many episodes, lines trainings beyond them. A
score below -0.2 is drawn there. `evopolicygym report` draws the same with the entrants of your runs.
"""
SEARCH: Final = """
## Scores after 128 episodes

Whole runs under the paper's protocol, in the jail, on the paper's held-out cases: mean over seeds, and the standard
deviation between them. `random` and `best trivial` are the anchors of the task, `best agent` is that of the paper. A
score in bold is above the best trivial policy; a cell without a number was not played yet.
"""
CURVES: Final = """
## Learning curves

Trainings with direct access to the simulator on train cases. Checkpoints are measured on validation and held-out cases
like any policy. `score` is the held-out mean of the checkpoint that validation selects at the end. The last column says
how much of this training the score of the paper's best agent is worth.
"""
EXCHANGE: Final = """
## What is a run worth?

```
evopolicygym leaderboard runs/ --details                      # exchange rates by the curves that ship
evopolicygym leaderboard runs/ --details --curves baselines/  # and by yours, for example on sealed cases
```

The exchange rate of an entrant is how many episodes and steps of training a baseline needs to reach its held-out score:
the first point of the learning curve from which a learner that stops there, selected on validation, scores at least as
much. With several seeds it is the median, and a seed that did not reach the score counts as more than any number; "not
reached within N steps" where that is half of them or more. Curves count only for runs on the same cases, task version,
package versions, limits and number of held-out cases. `report` has the same table and the figure above with the
entrants of your runs, and `evopolicygym.leaderboard(...)` has `exchange_rates` on each board.
"""
NOTHING: Final = "\nNo record was given.\n"


def baseline_page(rows: Sequence[BaselineRun], curves: Sequence[CurveRecord]) -> str:
    """Return the page as Markdown."""
    return "".join([HEAD, FIGURE, SEARCH, *_search_table(rows), CURVES, *_curve_table(curves), EXCHANGE])


def _search_table(rows: Sequence[BaselineRun]) -> Iterator[str]:
    if not rows:
        yield NOTHING
        return
    agents = sorted({row.agent for row in rows})
    yield "\n" + _line("task", "random", "best trivial", *(f"`{agent}`" for agent in agents), "best agent")
    yield _line(*["---"] * (len(agents) + 4))
    for task in dict.fromkeys(row.task for row in rows):
        random, trivial = _anchors(task)
        cells = [_cell(scores_of(rows, task, agent), trivial) for agent in agents]
        yield _line(task, _number(random), _number(trivial), *cells, _paper(task))
    seeds = sorted({row.seed for row in rows})
    missing = sum(row.score is None for row in rows)
    yield f"\n{len(rows)} runs, seeds {', '.join(map(str, seeds))}; {missing} of them without a score.\n"


def _curve_table(curves: Sequence[CurveRecord]) -> Iterator[str]:
    if not curves:
        yield NOTHING
        return
    yield "\n" + _line("task", "algorithm", "seeds", "steps", "episodes", "training", "score", "best agent's score")
    yield _line(*["---"] * 8)
    for task, algorithm in dict.fromkeys((curve.task, curve.algorithm) for curve in curves):
        group = [curve for curve in curves if (curve.task, curve.algorithm) == (task, algorithm) and curve.points]
        if group:
            last = [curve.points[-1] for curve in group]
            yield _line(
                *(task, f"`{algorithm}`", str(len(group))),
                f"{min(point.steps for point in last):,}",
                f"{min(point.episodes for point in last):,}",
                f"{max(point.train_s for point in last):,.0f} s",
                _cell([curve.score for curve in group if curve.score is not None], None),
                _worth(group, task),
            )


def _worth(group: Sequence[CurveRecord], task: str) -> str:
    best = published().get(task, {}).get(best_agent(task)) if task in published() else None
    if best is None or group[0].splits_id != "paper":
        return ""
    return exchange_rate(group, best).words


def _anchors(task: str) -> tuple[float | None, float | None]:
    """Return the random anchor and the best trivial one of a task."""
    anchors = stored_anchors().tasks.get(task)
    if anchors is None:
        return None, None
    means = {name: anchor.mean(HELDOUT_CASES) for name, anchor in anchors.trivial().items()}
    return means["random"], max(means.values())


def _paper(task: str) -> str:
    return _number(published()[task][best_agent(task)]) if task in published() else ""


def _cell(scores: list[float], trivial: float | None) -> str:
    summary = mean_and_deviation(scores)
    if summary is None:
        return ""
    mean, deviation = summary
    text = f"{_number(mean)} ± {_number(deviation)}" if len(scores) > 1 else _number(mean)
    return f"**{text}**" if trivial is not None and mean > trivial else text


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"
