"""Text of agents in a report is shown as text and never executed."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from report_helpers import Step, read, write_run

from evopolicygym.report.page import write_page
from evopolicygym.report.pdf import write_figures
from evopolicygym.report.report_data import collect_report

EVIL = "<script>alert(1)</script>\"onload='alert(2)' & </title></style></pre><svg onload=alert(3)>{{ 7 * 7 }}"
UNSEEN = "a\x00b\x1b[31m\u202eevil"
KNOWN = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "nav", "a", "main", "section",
    "figure", "figcaption", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "b",
    "span", "pre", "ul", "li", "svg", "g", "text", "line", "path", "circle", "rect", "polyline", "desc",
}  # fmt: skip


def hostile(folder):
    name = EVIL.replace("/", "|")
    policy = {"policy.py": f"# {EVIL}\nx = 1\n", name: f"{UNSEEN}\n{EVIL}\n"}
    better = {"policy.py": f"# {EVIL}\nx = 2\n", name: "changed\n"}
    written = write_run(
        folder / "runs" / name[:60],
        [Step(policy, validation=1.0), Step(better, validation=2.0), Step(policy, validation=None, verdict=EVIL)],
        agent=EVIL + UNSEEN, task=EVIL, demand=EVIL,
    )  # fmt: skip
    written.facts["agent"]["model"] = EVIL
    written.facts["turns"] = [
        {"exit_code": 0, "wall_s": 1.0, "submissions": 3, "failure": EVIL, "stop": True, "model": EVIL,
         "usage": {"fresh_input": EVIL, "output": -1}, "price": None}
    ]  # fmt: skip
    written.rewrite()
    (written.folder / "logs" / "agent").mkdir(parents=True)
    called = {"type": "tool_use", "input": {"command": f"cat feedback/{EVIL} feedback/{UNSEEN}.txt feedback/*{{<b>}}"}}
    answered = {"type": "tool_result", "content": f"submit_001 submit_002 submit_003 {EVIL}"}
    (written.folder / "logs" / "agent" / "turn_001.out").write_text(f"{json.dumps(called)}\n{json.dumps(answered)}\n")
    feedback = written.folder / "feedback" / "submit_001"
    feedback.mkdir(parents=True)
    (feedback / "summary.json").write_text(
        json.dumps({"n_failed": EVIL, "errors": [{"kind": EVIL, "message": UNSEEN}]})
    )
    broken = folder / "runs" / "<img src=x onerror=alert(4)>"
    broken.mkdir()
    (broken / "run.json").write_text(json.dumps({"schema_version": EVIL}))
    return folder / "runs"


def test_hostile_text_is_inert(tmp_path):
    drawn = write_page(collect_report([hostile(tmp_path)], tmp_path), tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    assert {tag for tag, _ in page.tags} <= KNOWN
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    text = "".join(page.text)
    assert text.count("<script>alert(1)</script>") > 5
    assert "{{ 7 * 7 }}" in text
    assert not set(text) & set("\x00\x1b\u202e")
    write_figures(drawn, tmp_path / "figures")
    for path in (tmp_path / "figures").glob("*.svg"):
        tags = {element.tag.split("}")[1] for element in ElementTree.parse(path).iter()}
        assert tags <= KNOWN


def test_every_attribute_is_one_of_ours(tmp_path):
    write_page(collect_report([hostile(tmp_path)], tmp_path), tmp_path / "report.html")
    values = [value or "" for tag, attributes in read(tmp_path / "report.html").tags for value in attributes.values()]
    assert not [value for value in values if "alert" in value]


def test_names_that_are_not_utf8_are_shown(tmp_path):
    written = write_run(tmp_path / "runs" / "r", [Step({"policy.py": "x = 1\n"}, validation=1.0)])
    checkpoint = written.folder / "checkpoints" / written.facts["checkpoints"][0]["hash"]
    (checkpoint / "bad\udcff.txt").write_text("a")
    (tmp_path / "runs" / "broken\udcff").mkdir()
    (tmp_path / "runs" / "broken\udcff" / "run.json").write_text("{}")
    write_page(collect_report([tmp_path / "runs"], tmp_path), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "bad\N{REPLACEMENT CHARACTER}.txt" in text and "broken\N{REPLACEMENT CHARACTER}" in text


SECRET = "a-secret-of-the-reader"


def shown(folder, run) -> str:
    """What a page shows of a collection with this run in it."""
    write_page(collect_report([run], folder), folder / "report.html")
    return (folder / "report.html").read_text()


def test_no_file_of_the_reader_gets_into_a_page(tmp_path):
    """By a checkpoint's name, or by a link in place of a part of the run; the control is a file that is part of it."""
    private = tmp_path / "private"
    private.mkdir()
    for name in ("policy.py", "summary.json"):
        (private / name).write_text(json.dumps({"errors": [SECRET]}))
    written = write_run(tmp_path / "runs" / "r", [Step({"policy.py": "x = 1\n", "n.txt": SECRET}, validation=1.0)])
    assert SECRET in shown(tmp_path, written.folder)
    checkpoint = written.folder / "checkpoints" / written.facts["checkpoints"][0]["hash"]
    (checkpoint / "n.txt").unlink()
    assert SECRET not in shown(tmp_path, written.folder)
    for part in (checkpoint, checkpoint / "policy.py", written.folder / "feedback", written.folder / "checkpoints"):
        kept = part.rename(tmp_path / "kept") if part.exists() else None
        part.symlink_to(private / "policy.py" if part.suffix else private)
        (private / checkpoint.name).symlink_to(".")
        assert SECRET not in shown(tmp_path, written.folder), part
        part.unlink()
        (private / checkpoint.name).unlink()
        if kept:
            kept.rename(part)
    written.folder.joinpath("run.json").write_text(
        json.dumps(written.facts).replace(checkpoint.name, "../../../private")
    )
    assert SECRET not in shown(tmp_path, written.folder) and "not a run record" in shown(tmp_path, written.folder)
