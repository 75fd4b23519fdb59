"""Other zone data than those that placed what is to come: who may place it anew, and where it goes.

Pure, like engine.py. The cases stand in docs/time-zones.md, "The tz database changes".
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tickstream.clock import EPOCH, iso_utc
from tickstream.codec import decode_command
from tickstream.dispatcher.calendar import met_anew
from tickstream.dispatcher.decision import Decision, Ended, Rules, Task, faulted, settle
from tickstream.dispatcher.series import Occurring, Place, place_of, pointing, series_of
from tickstream.errors import InvalidInput
from tickstream.model import NEVER, Command, Outcome, Progress, TaskState
from tickstream.recurrence.zone_data import Release, in_use

_MOST_COUNTED: Final = 2**31 - 1


def taken_over(progress: Progress, release: str) -> Progress:
    """What a bucket's Progress says once a process whose zone data are of `release` has it.

    `tzdata` never goes back. An older process leaves what is placed where it is; what it places itself is looked
    at again by the next one whose data are not older.
    """
    newest = progress.tzdata
    if not newest:
        return progress._replace(tzdata=release)
    if _rank(release) > _rank(newest):
        return progress._replace(tzdata=release, tzdata_before=_older(progress.tzdata_before, newest))
    if _rank(release) < _rank(newest):
        return progress._replace(tzdata_before=_older(progress.tzdata_before, release))
    return progress


def is_moving(progress: Progress, release: str) -> bool:
    """Whether a process with zone data of `release` has to look at what others placed."""
    return bool(progress.tzdata_before) and progress.tzdata == release


def with_zones(rules: Rules, progress: Progress) -> Rules:
    """The rules for a bucket that stands at `progress`."""
    release = (rules.zones or in_use()).release
    if progress.tzdata in ("", release):
        return (
            rules._replace(moving=f"{progress.tzdata_before} -> {release}")
            if progress.tzdata_before
            else rules
        )
    return rules._replace(newest=False)


def recurs(state: TaskState | None) -> bool:
    """Whether something is to come that zone data placed."""
    return state is not None and state.next_occurrence_ts != NEVER and state.extras.nominal_local != 0


def takes_time(state: TaskState) -> bool:
    """Whether it is a calendar's event, which may meet another by these zone data."""
    return state.extras.busy_until_ms != NEVER and not state.extras.faulted


def moves(task_id: str, task: Task, rules: Rules) -> bool:
    """Whether these zone data place what is to come elsewhere, or cannot place it. No decision yet.

    True also where that cannot be told: then the decision fails, and its task is singled out.
    """
    spec, state = task
    if spec is None or state is None or not recurs(state) or spec.rev != state.rev:
        return False
    command = decode_command(spec.command)
    if command.options.recurrence is None:
        return False
    try:
        series = series_of(task_id, command, state.extras, rules.zones)
        stood = place_of(state)
        return series.placed(stood, state.last_occurrence_ts)[0] is not stood
    except Exception:  # noqa: BLE001 - found again, and dealt with, where one element can be put aside
        return not state.extras.faulted


def look_again(task_id: str, task: Task, now_ms: int, rules: Rules) -> Decision:
    """Place what is to come of a task by the zone data in use. Without its zone there, the task is faulted.

    What an event meets by them is told, whether or not it moves.
    """
    spec, state = task
    if spec is None or state is None or not recurs(state) or spec.rev != state.rev:
        return Decision(task)
    command = decode_command(spec.command)
    if command.options.recurrence is None:
        return Decision(task)
    try:
        series = series_of(task_id, command, state.extras, rules.zones)
        met = met_anew(task, now_ms, rules)
    except InvalidInput as error:
        if state.extras.faulted:
            return Decision(task)
        return Decision(Task(spec, faulted(state, str(error))), alarm=parked(task_id, str(error)))
    decision = move(task, state, command, series, now_ms, rules)
    return decision._replace(also_ended=(*decision.also_ended, *met)) if met else decision


def move(
    task: Task, state: TaskState, command: Command, series: Occurring, now_ms: int, rules: Rules
) -> Decision:
    """The occurrence that is to come goes where `series` has it; the same task when it stays.

    It is due like any other then: at once, and by its misfire policy, if its instant is over.
    """
    stood = place_of(state)
    place, passed = series.placed(stood, state.last_occurrence_ts)
    if place is stood:
        return Decision(task)
    skipped = min(state.extras.skipped + passed, _MOST_COUNTED)
    extras = pointing(state.extras._replace(skipped=skipped), place)
    if place is None or place.fire_at_ms > now_ms:
        extras = extras._replace(held="")
    moved = state._replace(next_occurrence_ts=NEVER if place is None else place.at_ms, extras=extras)
    ended = Ended(
        stood.at_ms,
        0,
        state.rev,
        Outcome.SKIPPED if place is None else Outcome.MOVED,
        command.queue,
        NEVER,
        None,
        "",
        _told(stood, place, passed, series, rules),
        b"",
        through_ts=NEVER if place is None else place.at_ms,
        occurrences=1 + passed,
    )
    return Decision(settle(task, moved, Outcome.SKIPPED, now_ms, rules), ended=ended)


def parked(task_id: str, why: str) -> str:
    """The alarm of a task for which nothing is decided any more."""
    return f"task {task_id!r} is faulted: {why}. Nothing is decided for it until: tickstream task resume"


def _told(stood: Place, place: Place | None, passed: int, series: Occurring, rules: Rules) -> str:
    zone = series.recurrence.zone or "UTC"
    release = (rules.zones or in_use()).release
    wall = EPOCH + timedelta(seconds=stood.pointer.nominal_local)
    to = "no instant any more" if place is None else iso_utc(place.at_ms)
    more = f"; {passed} came to lie before the one that had its turn last, and are skipped" if passed else ""
    return f"tzdata {rules.moving or release}: {wall:%Y-%m-%d %H:%M} in {zone} moved from {iso_utc(stood.at_ms)} to {to}{more}"


def _older(*releases: str) -> str:
    return min(filter(None, releases), key=_rank)


def _rank(release: str) -> Release:
    """A text that is no release, of a build of its own, say, is older than all."""
    try:
        return Release.of(release)
    except InvalidInput:
        return Release(0, 0, release)
