"""What a run's record says of the nodes that played it."""

from __future__ import annotations

from evopolicygym.execution.records import Node
from evopolicygym.judge.events import Joined, Owned
from evopolicygym.run_record import load
from evopolicygym.runs.open_run import open_run


def test_nodes_are_recorded_and_the_lowest_level_counts(tmp_path):
    here, there = Node("1", "here", "A", 2), Node("2", "there", "", 0, "another bit_id")
    with open_run(tmp_path / "run", task="toys:Toy-v0", seeds="paper", jobs=1) as owner:
        owner.judge.record(Owned("A", "stock", (here, there)))
        owner.judge.record(Joined(Node("3", "late", "B", 4)))
        owner.write_record()
    isolation = load(tmp_path / "run").isolation
    assert isolation.policy == "B"
    assert [(node.host, node.level, node.seats) for node in isolation.nodes] == [
        ("here", "A", 2), ("there", "", 0), ("late", "B", 4)
    ]  # fmt: skip
    assert isolation.nodes[1].refused == "another bit_id"
