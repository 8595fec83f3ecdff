"""docs/phone-vectors.json: the generator makes the file."""

from __future__ import annotations

import json

from tests.offline_keys.vectors import phone_vectors

FILE = json.loads(phone_vectors.PATH.read_text())


def test_the_generator_makes_the_file() -> None:
    assert phone_vectors.PATH.read_text() == phone_vectors.text(), "python -m tests.offline_keys.vectors.phone_vectors"


def test_the_vectors_have_each_end() -> None:
    (visits,) = (group["tests"] for group in FILE["testGroups"] if group["type"] == "Conversation")
    ends = {call["ending"]["end"] for visit in visits for call in visit["calls"]}
    assert ends == {"done", "no-key", "refused", "unknown", "lost", "version", "invalid", "other-box"}


def test_each_comment_is_there_once() -> None:
    for group in FILE["testGroups"]:
        if group["type"] != "Action":
            comments = [test["comment"] for test in group["tests"]]
            assert len(set(comments)) == len(comments), group["type"]
