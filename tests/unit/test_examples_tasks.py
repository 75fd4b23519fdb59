"""The committed task file is what its generator makes, and has the shape that it claims."""

from collections import Counter

from examples.make_tasks import FILE, FULL_MINUTE, TASKS, lines
from tickstream.ops.task_file import TaskLine, read_tasks


def test_the_file_is_what_its_generator_makes() -> None:
    assert FILE.read_text("utf-8") == "".join(f"{line}\n" for line in lines())


def test_every_line_is_a_task_of_its_own() -> None:
    with FILE.open(encoding="utf-8") as file:
        tasks = [t for t in read_tasks(file, start_ms=0, queues={"default"}) if isinstance(t, TaskLine)]
    assert len({task.task_id for task in tasks}) == len(tasks) == TASKS == 10_000
    at = Counter(task.run_at_ms for task in tasks)
    assert at[0] == at[60_000] == FULL_MINUTE == 1_000
    assert all(at[second * 1_000] >= 250 for second in range(0, 61, 5))
    trickle = sum(count for instant, count in at.items() if instant % 5_000)
    assert 4_000 < trickle < 6_000
