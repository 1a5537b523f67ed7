"""Play one run. A restarted process repeats the same submissions in the same order, and so continues the run."""

from __future__ import annotations

import os
import sys

from ..api_client import ApiClient, RunOver, ServerUnreachable
from .evaluator import ApiEvaluator
from .search import tune
from .spaces import Spaces


def main() -> int:
    seed = int(os.environ.get("EVOPOLICYGYM_SEED") or 0) % 2**31
    api = ApiClient(f"tuner-{seed}")
    try:
        info = api.info()
        meta = info["env_meta"]
        spaces = Spaces(meta["obs_space"], meta["action_space"])
        tune(ApiEvaluator(api, spaces, info["episode_budget"]), spaces, seed)
    except RunOver as closed:
        print(f"tuner: done: {closed}")
    except ServerUnreachable as error:
        print(f"tuner: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
