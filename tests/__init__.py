import pytest

pytest.register_assert_rewrite(
    "tests.support.servers", "tests.support.people", "tests.assignments.endpoints.batch_requests"
)
