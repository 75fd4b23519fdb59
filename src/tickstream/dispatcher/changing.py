"""What a change to a calendar's event comes to, and the tasks that come with an event: its reminders, a series split off.

Pure, like engine.py. All of it lies in one bucket, so it is decided, and committed, together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tickstream.calendar import NO_DETAILS, Conflict, Event, admit
from tickstream.calendar.changes import Change, Scope, split, with_all_changed, with_one_changed
from tickstream.calendar.recurring import recurrence_of
from tickstream.calendar.stored import Booking, OnConflict, decode_booking, decode_change, encode_booking
from tickstream.calendar.values import Status
from tickstream.codec import decode_command, encode_body, encode_command
from tickstream.dispatcher.answers import answer_of, refuse
from tickstream.dispatcher.cancelling import cancel
from tickstream.dispatcher.decision import Decision, Judged, Rules, Sent, Task
from tickstream.dispatcher.defining import define
from tickstream.dispatcher.taking_up import Before
from tickstream.errors import CodecError, InvalidInput
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    Verb,
    VerdictKind,
)
from tickstream.settings import MAX_COMMAND_BYTES

_NOTHING_RUNS = encode_body(Body("", b"", {}, {}))


class _Asked(NamedTuple):
    """A change, and the event that it is about."""

    change: Change
    on_conflict: OnConflict
    command: Command
    """That made the present definition."""
    booking: Booking


def change_event(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    """One occurrence, one and those that follow it, or all of an event: changed as far as its calendar has the time."""
    spec, state = task
    if spec is None or state is None:
        return Decision(task, answer=answer_of(task, VerdictKind.UNKNOWN))
    command = decode_command(spec.command)
    if not command.options.event or state.extras.busy_until_ms == NEVER:
        return refuse(task, sent.command, VerdictKind.REJECTED, "it is no calendar's event")
    try:
        change, on_conflict = decode_change(sent.command.options.event)
        asked = _Asked(change, on_conflict, command, decode_booking(command.options.event))
        match change.scope:
            case Scope.ONE:
                return _one(task, sent, asked, now_ms, rules)
            case Scope.ALL:
                event = with_all_changed(asked.booking.event, change, asked.booking.calendar_zone)
                return _changed(task, sent, asked, event, now_ms, rules)
            case Scope.FOLLOWING:
                return _split(task, sent, asked, now_ms, rules)
    except (CodecError, InvalidInput) as error:
        return refuse(task, sent.command, VerdictKind.REJECTED, str(error))


def _one(task: Task, sent: Sent, asked: _Asked, now_ms: int, rules: Rules) -> Decision:
    change, booking = asked.change, asked.booking
    event = with_one_changed(booking.event, change, booking.calendar_zone)
    identity = booking.expansion.identity(change.recurrence_id)
    elsewhere = change.start is not None or change.status is not None
    if elsewhere and Before(task).had_its_turn(identity):
        return refuse(task, sent.command, VerdictKind.TOO_LATE, occurrence_ts=identity)

    def is_of_it(conflict: Conflict) -> bool:
        either = (conflict.occurrence, conflict.busy) if conflict.with_itself else (conflict.occurrence,)
        return any(busy.recurrence_ms == identity for busy in either)

    return _changed(task, sent, asked, event, now_ms, rules, is_of_it)


def _changed(
    task: Task,
    sent: Sent,
    asked: _Asked,
    event: Event,
    now_ms: int,
    rules: Rules,
    counts: Callable[[Conflict], bool] | None = None,
) -> Decision:
    """The task with another event, as far as that has its time. `counts`: which conflicts are a reason to refuse."""
    if event.status is Status.CANCELLED:
        detail = "a cancelled event takes no time: remove it"
        return refuse(task, sent.command, VerdictKind.REJECTED, detail)
    assert task.state is not None
    booking = asked.booking._replace(event=admit(event, asked.booking.calendar_zone))
    judged = Judged(None, "", task.state.extras.busy_until_ms)
    if _time_of(event) != _time_of(asked.booking.event):
        judged = rules.calendars.look(booking._replace(on_conflict=asked.on_conflict), now_ms, counts)
    if judged.refusal is not None:
        return refuse(task, sent.command, judged.refusal, judged.detail, found=judged.found)
    defining = _defining(asked.command, booking, sent)
    return define(task, defining, VerdictKind.REPLACED, judged._replace(may_end=True))


def _split(task: Task, sent: Sent, asked: _Asked, now_ms: int, rules: Rules) -> Decision:
    """Two series where there was one: both are written in one transaction, or neither is."""
    old, zone = asked.booking, asked.booking.calendar_zone
    begun, following = split(old.event, asked.change, zone)
    if following is None:
        return _changed(task, sent, asked, begun, now_ms, rules)
    identity = old.expansion.identity(asked.change.recurrence_id)
    booking = old._replace(event=admit(following, zone))
    other = rules.calendars.task(booking.task_id)
    if other.spec is not None:
        detail = f"uid {following.uid!r} is in use in this calendar: give another new_uid"
        return refuse(task, sent.command, VerdictKind.REJECTED, detail)

    def counts(conflict: Conflict) -> bool:
        """What the old series has from the split on is the new one's own."""
        return conflict.busy.uid != old.event.uid or conflict.busy.recurrence_ms < identity

    judged = rules.calendars.look(booking._replace(on_conflict=asked.on_conflict), now_ms, counts)
    if judged.refusal is not None:
        return refuse(task, sent.command, judged.refusal, judged.detail, found=judged.found)
    made = define(other, _defining(asked.command, booking, sent), VerdictKind.SCHEDULED, judged)
    shorter = old._replace(event=admit(begun, zone))
    stays = judged._replace(may_end=True, busy_until_ms=_horizon(task), found=judged.found)
    left = define(task, _defining(asked.command, shorter, sent), VerdictKind.REPLACED, stays)
    reminders = reminders_of(other, made, sent, now_ms, rules)
    detail = f"split: {following.uid!r} goes on from there"
    assert left.answer is not None
    return left._replace(
        follow=((booking.task_id, made), *reminders), answer=left.answer._replace(detail=detail)
    )


def _horizon(task: Task) -> int:
    assert task.state is not None
    return task.state.extras.busy_until_ms


def _defining(command: Command, booking: Booking, sent: Sent) -> Sent:
    """The Schedule that would have made the event as it is now. Raises InvalidInput when it is too large."""
    recurrence = command.options.recurrence
    assert recurrence is not None
    anew = recurrence_of(booking.expansion)._replace(
        misfire=recurrence.misfire, grace_ms=recurrence.grace_ms, overlap=recurrence.overlap
    )
    options = command.options._replace(
        event=encode_booking(booking), recurrence=anew, not_after=NEVER, if_rev=None
    )
    made = command._replace(command_id=sent.command.command_id, task_id=booking.task_id, options=options)
    encoded = encode_command(made)
    if len(encoded) > MAX_COMMAND_BYTES:
        raise InvalidInput(
            f"the event has {len(booking.event.overrides)} changed occurrences, {len(encoded)} bytes in all, and "
            f"{MAX_COMMAND_BYTES} is the limit: split it"
        )
    return Sent(made, encoded, sent.rev, sent.appended_ms)


def _time_of(event: Event) -> Event:
    """All of an event that its busy time depends on."""
    overrides = tuple(replace(o, details=None, reminders=None) for o in event.overrides)
    return replace(
        event, overrides=overrides, details=NO_DETAILS, reminders=(), sequence=0, continues="", last=None
    )


# --------------------------------------------------------------------------- reminders


def reminders_of(
    before: Task, decision: Decision, sent: Sent, now_ms: int, rules: Rules
) -> tuple[tuple[str, Decision], ...]:
    """What a decision about an event makes of the tasks that are its reminders."""
    after = decision.task
    if after.spec is before.spec:
        return ()
    was, wanted = _reminders(before), _reminders(after)
    found = [
        (task_id, _remind(task_id, booking, after, sent, now_ms, rules))
        for task_id, booking in wanted.items()
    ]
    found += [(task_id, _dropped(task_id, sent, now_ms, rules)) for task_id in was.keys() - wanted.keys()]
    return tuple(found)


def _reminders(task: Task) -> dict[str, Booking]:
    event = b"" if task.spec is None else decode_command(task.spec.command).options.event
    return {booking.task_id: booking for booking in decode_booking(event).reminders} if event else {}


def _remind(task_id: str, booking: Booking, event: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    """A reminder as its event has it now; dropped when none is to come."""
    assert event.spec is not None
    recurrence = decode_command(event.spec.command).options.recurrence
    call = booking.remind
    options = DEFAULT_OPTIONS._replace(
        recurrence=recurrence, event=encode_booking(booking), terms=None if call is None else call.terms
    )
    command = Command(
        sent.command.command_id,
        Verb.SCHEDULE,
        task_id,
        NEVER,
        "" if call is None else call.queue,
        options,
        _NOTHING_RUNS if call is None else call.body,
    )
    task = rules.calendars.task(task_id)
    kind = VerdictKind.SCHEDULED if task.spec is None else VerdictKind.REPLACED
    defining = Sent(command, encode_command(command), sent.rev, sent.appended_ms)
    try:
        return define(task, defining, kind)
    except InvalidInput:
        return _dropped(task_id, sent, now_ms, rules)  # every one of them lies in the past


def _dropped(task_id: str, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    task = rules.calendars.task(task_id)
    if task.spec is None:
        return Decision(task)
    command = Command(sent.command.command_id, Verb.CANCEL, task_id, NEVER, "", DEFAULT_OPTIONS, b"")
    return cancel(task, sent._replace(command=command), now_ms, rules)
