"""OpenEvolve as an agent: every program of its population that it evaluates is one submission.

    python3 -m venv openevolve && openevolve/bin/pip install openevolve==0.4.0
    evopolicygym run core16/acrobot --agent command --model gpt-5.5 --agent-env OPENAI_API_KEY \\
        -- openevolve/bin/python examples/agents/openevolve_agent.py

Its programs are whole policies. It ends when the budget does not last for another one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # its worker processes import this file by its path

from submissions import POLICY, feedback, play, remaining, score

CASES = list(range(4))


def evaluate(program: str) -> Any:
    """Submit a program; OpenEvolve calls this in its own processes."""
    from openevolve.evaluation_result import EvaluationResult

    summary = play(Path(program).read_text(), CASES)
    return EvaluationResult(metrics={"combined_score": score(summary)}, artifacts={"feedback": feedback(summary)})


def main() -> None:
    from openevolve.api import run_evolution
    from openevolve.config import Config, LLMModelConfig

    config = Config(random_seed=int(os.environ["EVOPOLICYGYM_SEED"]), diff_based_evolution=False)
    config.llm.api_base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    config.llm.models = [
        LLMModelConfig(
            name=os.environ["EVOPOLICYGYM_MODEL"],
            api_base=config.llm.api_base,
            api_key=os.environ["OPENAI_API_KEY"],
            max_tokens=16_000,
            timeout=600,
            retries=3,
            retry_delay=5,
        )
    ]
    config.prompt.system_message = Path("AGENTS.md").read_text()
    config.evaluator.cascade_evaluation = False
    config.evaluator.parallel_evaluations = 1
    config.evaluator.timeout = 3600
    config.database.num_islands = 1
    config.max_tasks_per_child = None
    generations = max(1, remaining() // len(CASES) - 1)
    best = run_evolution(
        POLICY, __file__, config, iterations=generations, output_dir=str(Path(".openevolve").resolve())
    )
    POLICY.write_text(best.best_code)
    print(f"the best program has {best.best_score:g}")


if __name__ == "__main__":
    main()
