"""ShinkaEvolve as an agent: every program of its population that it evaluates is one submission.

    python3 -m venv shinka && shinka/bin/pip install shinka-evolve==0.0.7
    evopolicygym run core16/acrobot --agent command --model gpt-5.5 --agent-env OPENAI_API_KEY \\
        -- shinka/bin/python examples/agents/shinka_agent.py

Its programs are whole policies, and it evaluates one at a time. It starts this file as its evaluator, with
``--program_path`` and ``--results_dir``. It ends when the budget does not last for another program.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parent))

from submissions import POLICY, feedback, play, remaining, score

CASES = list(range(4))
BEGIN, END = "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"  # what its model may change: everything
FOLDER = Path(".shinka").resolve()


def evaluate(program: Path, results: Path) -> None:
    """Submit a program, and write its score to where ShinkaEvolve reads it."""
    from shinka.core.wrap_eval import save_json_results

    summary = play(program.read_text(), CASES)
    is_ok = summary.get("status") == "ok"
    metrics = {"combined_score": score(summary), "text_feedback": feedback(summary)}
    save_json_results(str(results), metrics, is_ok, None if is_ok else feedback(summary))


def evolve() -> None:
    from shinka.core import EvolutionConfig, ShinkaEvolveRunner
    from shinka.database import DatabaseConfig
    from shinka.launch import LocalJobConfig

    FOLDER.mkdir(exist_ok=True)
    initial = FOLDER / "initial.py"
    initial.write_text(BEGIN + POLICY.read_text() + END)
    seed = int(os.environ["EVOPOLICYGYM_SEED"])
    random.seed(seed)
    numpy.random.seed(seed)
    address = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    runner = ShinkaEvolveRunner(
        EvolutionConfig(
            task_sys_msg=Path("AGENTS.md").read_text(),
            llm_models=[f"local/{os.environ['EVOPOLICYGYM_MODEL']}@{address}?api_key_env=OPENAI_API_KEY"],
            llm_dynamic_selection=None,
            patch_types=["full"],
            patch_type_probs=[1.0],
            embedding_model=None,
            meta_rec_interval=None,
            use_text_feedback=True,
            init_program_path=str(initial),
            num_generations=max(1, remaining() // len(CASES)),
            results_dir=str(FOLDER / "results"),
        ),
        LocalJobConfig(eval_program_path=str(Path(__file__).resolve())),
        DatabaseConfig(db_path="programs.sqlite", num_islands=1),
        banner_style="minimal",
        verbose=False,
        max_evaluation_jobs=1,
        max_proposal_jobs=1,
        max_db_workers=1,
    )
    runner.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program_path", type=Path, help="program to evaluate (given by ShinkaEvolve)")
    parser.add_argument("--results_dir", type=Path, help="folder for its score (given by ShinkaEvolve)")
    options = parser.parse_args()
    if options.program_path:
        evaluate(options.program_path, options.results_dir)
    else:
        evolve()


if __name__ == "__main__":
    main()
