"""GEPA as an agent: every candidate that it evaluates is one submission of `system/policy.py`.

    python3 -m venv gepa && gepa/bin/pip install gepa==0.1.4
    evopolicygym run core16/acrobot --agent command --model gpt-5.5 --agent-env OPENAI_API_KEY \\
        -- gepa/bin/python examples/agents/gepa_agent.py

GEPA evaluates one candidate after another, so that submissions never meet (`busy`). It reflects on the summary of a
submission and on the errors of its episodes. It stops when the budget does not last for another candidate.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import gepa
from gepa.core.adapter import EvaluationBatch
from submissions import NOT_PERMITTED, POLICY, TRY_LATER, WORST, feedback, play, remaining

CASES = 4  # of each candidate; GEPA calls them the training and the validation set
PROMPT = """\
Improve this policy. The task:

{task}

The policy so far (system/policy.py):

```python
{policy}
```

What its last episodes brought:

{feedback}

Answer with the whole new policy.py in one Python code block, and nothing else.
"""


def main() -> None:
    cases = list(range(CASES))
    result = gepa.optimize(
        seed_candidate={"policy": POLICY.read_text()},
        trainset=cases,
        valset=cases,
        adapter=PolicyAdapter(),
        reflection_lm=ask,
        reflection_minibatch_size=CASES,
        skip_perfect_score=False,
        cache_evaluation=True,
        stop_callbacks=lambda state: remaining() < CASES,
        max_metric_calls=4 * remaining(),  # a candidate that was played before costs no budget, and would never end it
        seed=int(os.environ["EVOPOLICYGYM_SEED"]),
        raise_on_exception=True,
    )
    POLICY.write_text(result.best_candidate["policy"])
    print(f"{len(result.candidates)} candidates; the best one has {max(result.val_aggregate_scores):g}")


class PolicyAdapter:
    """What GEPA asks of the system that it improves."""

    def evaluate(self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Submit a candidate. One that does not load, or that the budget does not last for, has the worst scores."""
        summary = play(candidate["policy"], sorted(batch))
        returns = dict(zip(sorted(batch), summary.get("returns") or (), strict=False))
        notes = [feedback(summary)] * len(batch)
        return EvaluationBatch(notes, [returns.get(case, WORST) for case in batch], notes if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        return {name: [{"Feedback": evaluated.trajectories[0]}] for name in components}

    def propose_new_texts(
        self, candidate: dict[str, str], dataset: dict[str, list[dict[str, Any]]], components: list[str]
    ) -> dict[str, str]:
        brought = dataset["policy"][0]["Feedback"]
        answer = ask(PROMPT.format(task=Path("AGENTS.md").read_text(), policy=candidate["policy"], feedback=brought))
        blocks = re.findall(r"```(?:python)?\n(.*?)```", answer, re.DOTALL)
        return {"policy": blocks[-1] if blocks else candidate["policy"]}


def ask(prompt: str | list[dict[str, Any]]) -> str:
    """Ask the model over OpenAI's API. The run's gateway is at OPENAI_BASE_URL, and its token is the key."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    body = json.dumps({"model": os.environ["EVOPOLICYGYM_MODEL"], "messages": messages}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{base}/chat/completions", body, headers)) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as error:
        print(f"the model refused: {error.code} {error.read(500)!r}", file=sys.stderr)
        sys.exit(NOT_PERMITTED if error.code in (401, 403) else TRY_LATER)
    except OSError as error:
        print(f"the model cannot be reached: {error}", file=sys.stderr)
        sys.exit(TRY_LATER)


if __name__ == "__main__":
    main()
