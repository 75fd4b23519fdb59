"""`--queues`, `--queue` and `--limits`: what they mean, and what each mistake is told."""

import pytest

from tickstream.cli.worker import _shares
from tickstream.errors import InvalidInput
from tickstream.worker.fair import Share


def test_queues_with_weights_single_ones_and_limits_add_up() -> None:
    assert _shares(None, [], None) == {"default": Share()}
    assert _shares(None, ["mail", "reports"], None) == {"mail": Share(), "reports": Share()}
    assert _shares("a=3, b=0.5,c", ["d"], "b=2,d=1") == {
        "a": Share(3.0),
        "b": Share(0.5, 2),
        "c": Share(),
        "d": Share(1.0, 1),
    }


@pytest.mark.parametrize(
    ("queues", "single", "limits", "says"),
    [
        ("a=many", [], None, "'many' is no number"),
        ("a,a", [], None, "name none twice"),
        ("a", ["a"], None, "name none twice"),
        ("a", [], "b=1", "queues that this worker serves"),
        ("a", [], "a", "write NAME=N"),
        ("a", [], "a=1.5", "write NAME=N"),
    ],
)
def test_each_mistake_is_told(queues: str, single: list[str], limits: str | None, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        _shares(queues, single, limits)
