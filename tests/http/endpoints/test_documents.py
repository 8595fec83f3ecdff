"""Documents: what this server is, and whether it is well. For OpenAPI and its page see tests/http/openapi."""

from __future__ import annotations

import keyrack
from tests.support.people import web
from tests.support.servers import RunningServer


def test_what_this_server_is(server: RunningServer) -> None:
    for path in ("/", "/v3", "/v3/"):
        answer = web().get(server.url + path)
        assert answer.status_code == 200
        about = answer.json()
        assert "enrolBox" in about.pop("preview")
        assert about == {
            "name": "Keyrack",
            "version": keyrack.__version__,
            "apiVersion": "3",
            "baseUrl": server.url + "/v3",
            "documentation": server.url + "/docs",
            "openapi": server.url + "/openapi.json",
        }
    assert web().get(answer.json()["documentation"]).status_code == 200
    assert web().get(answer.json()["openapi"]).status_code == 200


def test_the_server_is_well(server: RunningServer) -> None:
    answer = web().get(server.url + "/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert answer.headers["cache-control"] == "no-store"


def test_whoever_reads_openapi_may_come_from_anywhere(server: RunningServer) -> None:
    answer = web().get(server.url + "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.json()["openapi"] == "3.1.0"
