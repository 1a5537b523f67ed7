"""`agent check --model-url`: what a server can do; certificates and headers of one's own."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess

import pytest
from gateway_helpers import RawServer, call, gateway
from scripted_model import ScriptedModel

from evopolicygym.api.agents import check_model_server
from evopolicygym.errors import UserError
from evopolicygym.gateway.upstream import ModelServer
from server_helpers import command

pytestmark = pytest.mark.timeout(60)


def test_a_server_is_asked_what_it_can_do(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-this-test")
    with ScriptedModel() as model:
        done = command("agent", "check", "model", "--model-url", f"{model.url}/v1", "--json")
    server = json.loads(done.stdout)["server"]
    assert done.returncode == 0 and server["models"][0] == "scripted"
    assert [api["api"] for api in server["apis"] if api["answers"] and api["streams"] and api["reports_usage"]] == [
        "openai-chat", "openai-responses", "anthropic-messages",
    ]  # fmt: skip
    assert {row["key"] for row in model.seen} == {"a-key-of-this-test"} and len(model.seen) == 3


@pytest.mark.parametrize(
    ("agent", "model", "path", "is_usable"),
    [("gemini", "gemini-any", "", True), ("gemini", "gemini-any", "/v1", False),
     ("claude", "claude-any", "", True), ("claude", "claude-any", "/v1", True)],
)  # fmt: skip
def test_a_server_is_usable_by_a_client_whose_api_it_has(agent, model, path, is_usable):
    """And whose base URL it is given: Gemini's has no version; Anthropic's may have one."""
    with ScriptedModel() as server:
        abilities = check_model_server(agent, server.url + path, model=model)
    assert abilities.is_usable is is_usable and len(abilities.apis) == (4 if agent == "gemini" else 3)
    assert abilities.needed == {"gemini": "gemini", "claude": "anthropic-messages"}[agent]
    assert all(api.reports_usage for api in abilities.apis if api.api == abilities.needed) is is_usable


def test_a_server_with_one_api_and_one_that_is_not_there(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-this-test")
    wrong = b'{"error":{"message":"no such thing"}}'
    lost = b"HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(wrong) + wrong

    def answer(talk):
        is_chat = b"/chat/" in server.requests[-1].partition(b"\r\n")[0]
        talk.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"model":"m"}' if is_chat else lost)

    with RawServer(answer) as server:
        done = command("agent", "check", "model", "--model-url", f"{server.url}/v1")
    assert done.returncode == 0 and "openai-chat        answers (served by m)" in done.stdout
    assert "reports no usage" in done.stdout and "openai-responses   no: 404 no such thing" in done.stdout
    gone = command("agent", "check", "model", "--model-url", f"{server.url}/v1")
    assert gone.returncode == 1 and "not usable" in gone.stdout and "ClientConnectorError" in gone.stdout


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_certificates_are_checked_and_may_be_ones_own(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
               "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]  # fmt: skip
    subprocess.run(request, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with RawServer(lambda talk: talk.sendall(reply), context) as server:
        with gateway(server.url, patience_s=60) as opened:
            status, body = call(opened, "openai-chat")
            assert status == 502 and b"certificate is not trusted" in body and not server.requests
        with gateway(server.url, ca_file=certificate, headers={"X-Team": "one"}) as opened:
            assert call(opened, "openai-chat")[0] == 200 and b"X-Team: one" in server.requests[0]


def test_a_file_that_has_no_certificates(tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(UserError, match="no certificates that can be read"):
        ModelServer("https://127.0.0.1", ca_file=tmp_path / "ca.pem").tls()


def test_calls_go_through_the_proxy_of_a_company(monkeypatch):
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with RawServer(lambda talk: talk.sendall(reply)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with gateway("http://models.example.test/v1") as opened:
            assert call(opened, "openai-chat")[0] == 200
        assert proxy.requests[0].startswith(b"POST http://models.example.test/v1/")
        monkeypatch.setenv("no_proxy", "models.example.test")
        with gateway("http://models.example.test/v1") as opened:  # such a host does not exist
            assert call(opened, "openai-chat")[0] == 502
        assert len(proxy.requests) == 1
