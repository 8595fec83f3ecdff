"""The root document and `/health`. OpenAPI and its page are tested in tests/http/openapi."""

from __future__ import annotations

import keyrack
from tests.support.people import web
from tests.support.servers import RunningServer


def test_the_root_describes_the_server(server: RunningServer) -> None:
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


def test_health_returns_ok(server: RunningServer) -> None:
    answer = web().get(server.url + "/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert answer.headers["cache-control"] == "no-store"


def test_every_origin_may_read_openapi(server: RunningServer) -> None:
    answer = web().get(server.url + "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.json()["openapi"] == "3.1.0"
