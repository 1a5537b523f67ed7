"""Mechanisms by rules against those that a person finds."""

from __future__ import annotations

import pytest
from labelled_policies import ROOT, agreement, labelled_policies
from run_folders import Step, source, write_run

from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.edits.mechanisms import RULES
from evopolicygym.analysis.loading import open_run_folder

POLICIES = labelled_policies()
# What only a person finds.
MISSED = {
    "depth limited recursion": {"search"},
    "frame difference": {"perception"},
    "belief over hidden goal": {"state_estimation"},
}
# What only the rules find.
WRONG = {
    "oracle of bipedal-walker": {"state_estimation"},
    "oracle of minigrid": {"feedback_control"},
    "learner: network": {"memory"},
}


def by_rules(policy) -> frozenset[str]:
    return (policy.mechanisms | WRONG.get(policy.name, set())) - MISSED.get(policy.name, set())


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_labelled_policy(policy, tmp_path):
    mechanisms = policy.find(tmp_path)
    assert mechanisms.keys() == by_rules(policy)
    assert all(1 <= at.line <= policy.files[at.file].count("\n") + 1 for at in mechanisms.values())


def test_the_documented_agreement():
    """`python benchmarks/labels.py` prints the same numbers."""
    assert len(POLICIES) >= 40
    assert {name for policy in POLICIES for name in policy.mechanisms} == {*RULES}
    pairs = [(policy.mechanisms, by_rules(policy)) for policy in POLICIES if not (policy.fresh or policy.second)]
    text = (ROOT / "docs" / "diagnostics.md").read_text()
    for name, (both, person, by_rule) in agreement(pairs).items():
        words = name.replace("_", " ")
        assert f"| {words} | {both} of {by_rule} | {both} of {person} |" in text, name
    for group, words in (("fresh", "the rules find"), ("second", "now find")):
        chosen = [policy for policy in POLICIES if getattr(policy, group)]
        wanted = sum(len(policy.mechanisms) for policy in chosen)
        by_rule = sum(len(by_rules(policy) & policy.mechanisms) for policy in chosen)
        assert f"{words} {by_rule} of {wanted} mechanisms" in " ".join(text.split())


PD = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.last = 0.0

    def reset(self, episode_index):
        self.last = 0.0

    def act(self, obs):
        error = 1.0 - obs[0]
        force = 2.0 * error - 0.5 * (error - self.last)
        self.last = error
        return [force]
"""


def test_a_run_shows_the_mechanisms_of_its_selected_code(tmp_path):
    steps = [source("class Policy: pass", validation=0.0), source(PD, validation=1.0)]
    mechanisms = diagnose(open_run_folder(write_run(tmp_path / "run", steps).folder)).mechanisms
    line = "force = 2.0 * error - 0.5 * (error - self.last)"
    assert {mechanism.name: (mechanism.file, mechanism.line, mechanism.text) for mechanism in mechanisms} == {
        "memory": ("policy.py", 11, line),
        "state_estimation": ("policy.py", 11, line),
        "feedback_control": ("policy.py", 11, line),
    }


def test_unused_code_has_no_mechanism(tmp_path):
    unused = PD.replace("class Policy", "class Old") + "\n\nclass Policy:\n    def act(self, obs):\n        return 0\n"
    mechanisms = diagnose(open_run_folder(write_run(tmp_path / "run", [source(unused)]).folder)).mechanisms
    assert {mechanism.name for mechanism in mechanisms} == set()


def test_mechanisms_are_unknown_without_the_checkpoints(tmp_path):
    written = write_run(tmp_path / "run", [source(PD)])
    (written.folder / "checkpoints").rename(tmp_path / "elsewhere")
    assert diagnose(open_run_folder(written.folder)).mechanisms is None


def test_hostile_source_costs_its_own_facts_alone(tmp_path):
    """A chain that is too deep for the rules leaves the labels of the other versions as they are."""
    deep = "class Policy:\n    def act(self, obs):\n        return " + "+".join(["obs[0]"] * 4000) + "\n"
    steps = [Step({"policy.py": PD}), Step({"policy.py": deep}, validation=5.0), Step({"policy.py": PD + "# again\n"})]
    diagnosis = diagnose(open_run_folder(write_run(tmp_path / "run", steps).folder))
    assert diagnosis.timeline[-1].canonical == "exact"
