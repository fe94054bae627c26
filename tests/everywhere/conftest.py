"""The stories say what they found when it is not what they expect."""

import pytest

pytest.register_assert_rewrite("everywhere.jobs", "everywhere.queues", "everywhere.world")
