import pytest

pytest.register_assert_rewrite("tests.servers", "tests.people", "tests.endpoints.batches")
