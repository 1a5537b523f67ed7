"""Plain sampling: ask a model for a policy again and again with the same prompt, and submit each answer once.

The model sees no feedback, no earlier answer and no tool, so that its score is what it knows of the task, and what
hidden validation finds among its samples. An agent that scores no more has not used its feedback.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ..api_client import ApiClient, RunOver, ServerUnreachable
from .providers import Provider, ProviderError, RequestUsage, add_model_options, connect, emit

PROGRAMS: Final = 8
ATTEMPTS: Final = 3  # at one program: an answer may have none
SYSTEM: Final = "You are a software engineer. You write one program, and nobody answers questions."
TASK: Final = """\
{rules}

---

You have no tools and get no feedback in this conversation: whatever is said above about submitting is done for you.
This is the starter policy, system/policy.py:

```python
{starter}```

Answer with the whole content of the best system/policy.py that you can write, in one code block. It is submitted as it
is.
"""
PROGRAM: Final = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="best-of-n", description=__doc__)
    add_model_options(parser)
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="programs to sample")
    options = parser.parse_args()
    sampler = Sampler(connect(parser, options, SYSTEM, []), Path(os.environ["HOME"], "best-of-n"))
    api = ApiClient(f"best-of-n-{os.environ.get('EVOPOLICYGYM_SEED') or 0}")
    try:
        text = submit_samples(api, sampler, options.programs)
    except RunOver as closed:
        text = str(closed)
    except (ProviderError, ServerUnreachable) as error:
        emit("error", code=getattr(error, "code", 0), message=str(error))
        return 1
    emit("result", usage=asdict(sampler.total), requests=sampler.requests, text=text)
    return 0


def submit_samples(api: ApiClient, sampler: Sampler, programs: int) -> str:
    """Submit each program for an equal share of the budget, all on the same cases. A restarted agent has its programs,
    and repeats its submissions, which costs nothing."""
    budget = int(api.info()["episode_budget"])
    programs = max(1, min(programs, budget))
    policy = api.system / "policy.py"
    prompt = sampler.prompt(api.workspace / "AGENTS.md", policy)
    submitted = 0
    for number in range(1, programs + 1):
        program = sampler.program(number, prompt)
        if program:
            policy.write_text(program)
            reply = api.submit(list(range(budget // programs)))
            submitted += 1
            emit("submission", program=number, status=reply.status)
    return f"{submitted} of {programs} programs are submitted"


class Sampler:
    """Asks the model. What it answered is kept in a folder, so that a restarted agent does not ask again."""

    def __init__(self, provider: Provider, folder: Path) -> None:
        self._provider, self._folder = provider, folder
        self.total, self.requests = RequestUsage(), 0
        folder.mkdir(exist_ok=True)

    def prompt(self, rules: Path, starter: Path) -> str:
        """Return the prompt, the same at every start: the starter policy is overwritten by the first program."""
        path = self._folder / "prompt.txt"
        if not path.exists():
            _write(path, TASK.format(rules=rules.read_text(), starter=starter.read_text()))
        return path.read_text()

    def program(self, number: int, prompt: str) -> str:
        """Return a program, or nothing if the model wrote none."""
        path = self._folder / f"program_{number:03}.py"
        if not path.exists():
            _write(path, self._ask(prompt))
        return path.read_text()

    def _ask(self, prompt: str) -> str:
        for _ in range(ATTEMPTS):
            reply = self._provider.complete([{"role": "user", "content": prompt}])
            self.requests += 1
            self.total += reply.usage
            emit("assistant", text=reply.text, model=reply.model, usage=asdict(reply.usage))
            programs: list[str] = PROGRAM.findall(reply.text)
            if programs:
                return max(programs, key=len)
        return ""


def _write(path: Path, text: str) -> None:
    staged = path.with_suffix(".new")
    staged.write_text(text)
    staged.replace(path)


if __name__ == "__main__":
    sys.exit(main())
