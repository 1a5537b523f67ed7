"""The published schema is that of the code. Regenerate: python -m evopolicygym.run_record > docs/schemas/run-1.json"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evopolicygym.errors import UserError
from evopolicygym.run_record import load, schema

PUBLISHED = Path(__file__).parents[1] / "docs" / "schemas" / "run-1.json"


def test_the_published_schema_is_that_of_the_code():
    assert json.loads(PUBLISHED.read_text()) == schema()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'])
def test_what_is_no_record_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json is not a run record"):
        load(tmp_path)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        load(tmp_path / "nothing")
