"""Everything in this folder needs a broker."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The hook sees the items of the whole run, not of this folder only.
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)
