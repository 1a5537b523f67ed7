"""The API of a real served run does what its OpenAPI document says, checked by schemathesis.

Left out of its checks: ``positive_data_acceptance``, because what the schema allows may still be refused by the state
of the run (budget, busy, closed, ranges that do not exist), and those on authentication, of which there is none.
"""

from __future__ import annotations

import json
import re
import urllib.request

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from conftest import policy_source
from server_helpers import SMALL

POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
PATIENT = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server(serve_for_all):
    """A budget that ends on the way, so that every state of a run is met."""
    server = serve_for_all("--budget", "12", *SMALL)
    server.policy(policy_source())
    return server


@pytest.fixture(scope="module")
def api(server):
    return schemathesis.openapi.from_url(f"{server.api}/openapi.json")


CONVERSATIONS = [
    ("GET", "/info", POSITIVE),
    ("GET", "/task", POSITIVE),
    ("GET", "/submissions/{submit_id}", POSITIVE),
    ("POST", "/submit", POSITIVE),
    ("POST", "/submit", NEGATIVE),
]


@pytest.mark.parametrize(("method", "path", "mode"), CONVERSATIONS)
def test_the_api_matches_its_document(api, method, path, mode):
    converse(api[path][method], mode, 40 if method == "POST" else 10)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "mode"), CONVERSATIONS)
def test_the_api_matches_its_document_at_length(api, method, path, mode):
    converse(api[path][method], mode, 2000)


def converse(operation, mode, examples):
    @settings(PATIENT, max_examples=examples)
    @given(case=operation.as_strategy(generation_mode=mode))
    def said(case):
        case.call_and_validate(checks=CHECKS, timeout=120)

    said()


def test_nothing_was_charged_beyond_the_budget(server):
    """After all that: the run is as sound as any. One submission is its own, since another worker may have had the
    conversations; it is refused where they have used up the budget."""
    server.submit([0])
    info = server.call("GET", "/info")[1]
    ends = [json.loads(line)["kind"] for line in (server.root / "ledger.jsonl").read_text().splitlines()]
    assert ends.count("charged") == ends.count("judged") == info["state"]["n_submits"]
    assert 0 <= info["state"]["remaining_budget"] < 12


def test_the_document_is_valid_and_has_the_address(server):
    with urllib.request.urlopen(f"{server.api}/openapi.json", timeout=60) as reply:
        document = json.load(reply)
    assert document["openapi"].startswith("3.1.")
    assert server.api.endswith(document["servers"][0]["url"])
    assert set(document["paths"]) == {"/info", "/task", "/submit", "/submissions/{submit_id}"}
    api = schemathesis.openapi.from_url(f"{server.api}/openapi.json")
    assert api.get_base_url().rstrip("/") == server.api
    api.validate()
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert named == set(document["components"]["schemas"])
