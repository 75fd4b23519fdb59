"""What the promises demand of each command of a task, given everything that was read of the task.

The topics keep no verdicts for long, so a command's standing is inferred; where the promises leave
it open, nothing is demanded. Only model may enter here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from tickstream.model import NEVER, RECENT_COMMANDS, Rev, Verb, VerdictKind
from tickstream.ops.audit.facts import Acked, Asked
from tickstream.ops.audit.history import Case, TaskHistory

PAST_LIMIT_MS: Final = 3_600_000
"""A run_at further back than this, when accepted, may be rejected unless the command says `allow_past`."""
_REFUSALS: Final = (
    VerdictKind.TOO_LATE,
    VerdictKind.ALREADY_RAN,
    VerdictKind.UNKNOWN,
    VerdictKind.REJECTED,
)
_CLAIMS_WORK: Final = (VerdictKind.TOO_LATE, VerdictKind.ALREADY_RAN)
"""Answers to a Schedule that say: this very instant has its work already."""


class Standing(Enum):
    """Whether a command changed its task."""

    EFFECTIVE = auto()
    REFUSED = auto()
    """It did not, and rightly so: rejected, too late, or the re-send of one that came before."""
    UNSURE = auto()
    """Either would keep the promises."""


class Fate(Enum):
    """What became of a Schedule."""

    REFUSED = auto()
    DISPATCHED = auto()
    CANCELLED = auto()
    SUPERSEDED = auto()
    WAITING = auto()
    """Not due for longer than the grace; or it recurs, and every occurrence so far was skipped."""
    SET_ASIDE = auto()
    """It lies in `dead-letter`, and a person was told."""
    PARKED = auto()
    """Due, and paused, held at a gate, or faulted."""
    UNCHECKED = auto()
    """Due and without work, where the log no longer holds, or never held, what would prove a loss."""
    LOST = auto()


def find_command(history: TaskHistory, entry: Acked) -> Asked | None:
    """The command that lies where the receipt says, None when it is not there."""
    place = Rev(entry.receipt.offset, entry.receipt.item)
    if history.bucket != entry.receipt.bucket:
        return None
    return next((command for command in history.asked if command.rev == place), None)


class Fates:
    """The standing of each command of a task, and the fate of each of its Schedules."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._history = case.history
        # By id, not by place: a re-send gets the answer of the first send.
        self._answers = dict(case.history.answers)
        for entry in case.history.acked:
            command = find_command(case.history, entry)
            if entry.verdict is not None and command is not None:
                self._answers[command.command_id] = entry.verdict
        works = case.history.dispatched
        self._dispatched = {(work.rev, work.occurrence_ts) for work in works}
        self._revs = {work.rev for work in works}
        self._occurrences = {work.occurrence_ts for work in works}
        self._aside = {letter.command_id for letter in case.history.set_aside}
        self.standings = self._standings()
        """Of each command, in log order."""

    def verdict_of(self, command: Asked) -> VerdictKind | None:
        """The answer to `command`, None when none is known."""
        return self._answers.get(command.command_id)

    def of_schedules(self) -> Iterator[tuple[Asked, Fate]]:
        """Every Schedule of the task with its fate, last first."""
        undone_by: Verb | None = None
        for command, standing in zip(reversed(self._history.asked), reversed(self.standings), strict=True):
            if command.verb is Verb.SCHEDULE:
                yield command, self._fate(command, standing, undone_by)
            if _undoes(command, standing):
                undone_by = command.verb

    def effective_cancels(self) -> Iterator[tuple[Asked, Asked | None]]:
        """Every Cancel that may have changed the task, with the Schedule that stood when it came.

        Without re-sends: the answer that is known is the first send's.
        """
        sent: set[bytes] = set()
        standing_schedule: Asked | None = None
        for command, standing in zip(self._history.asked, self.standings, strict=True):
            again = command.command_id in sent
            sent.add(command.command_id)
            if standing is Standing.REFUSED:
                continue
            if command.verb is Verb.SCHEDULE:
                standing_schedule = command
            elif command.verb is Verb.CANCEL and not again:
                yield command, standing_schedule

    # ------------------------------------------------------------------ standing

    def _standings(self) -> list[Standing]:
        seen: dict[bytes, int] = {}
        """command_id → how many other commands of the task came before its first send."""
        traceless: set[bytes] = set()
        # Commands that went before may be gone from the start of the log.
        bounds = self._case.bounds
        cut = bounds.cut(bounds.names.commands, self._history.bucket)
        asked_before = False
        found: list[Standing] = []
        for command in self._history.asked:
            if command.command_id not in seen and not asked_before and command.verb is not Verb.SCHEDULE:
                # It may have met no task: then nothing remembers it, and a re-send is as good as new.
                traceless.add(command.command_id)
            since = None
            if command.command_id in seen and command.command_id not in traceless:
                since = len(seen) - seen[command.command_id] - 1
            if command.command_id in seen and command.command_id in traceless:
                standing: Standing | None = Standing.UNSURE  # an answer that is known may be the first send's
            else:
                standing = self._standing(command, since)
            if standing is None:
                unsure = command.rejects and (asked_before or cut)
                standing = Standing.UNSURE if unsure else Standing.EFFECTIVE
            seen.setdefault(command.command_id, len(seen))
            asked_before |= command.verb is Verb.SCHEDULE and standing is not Standing.REFUSED
            found.append(standing)
        return found

    def _standing(self, command: Asked, since: int | None) -> Standing | None:
        """The standing as far as this command alone shows it; None: what stood before it decides.

        `since`: of a re-send, how many other commands came after the first send.

        A re-send changes nothing (G6) while the task remembers the first send. A Schedule that
        finds a later or the same instant dispatched already is refused: had it come first, the older
        definition would have been replaced and not dispatched. (Once a task is forgotten, such a
        Schedule is taken again; the loss of that one goes unnoticed.)
        """
        answer = self.verdict_of(command)
        if since is not None:
            return Standing.REFUSED if since <= RECENT_COMMANDS else Standing.UNSURE
        if command.command_id in self._aside:
            return Standing.REFUSED
        if answer is not None:
            return Standing.REFUSED if answer in _REFUSALS else Standing.EFFECTIVE
        if command.verb is not Verb.SCHEDULE:
            return Standing.UNSURE
        bounds = self._case.bounds
        if command.rev in self._revs:
            return Standing.EFFECTIVE
        if command.queue not in bounds.layout.queues:
            return Standing.REFUSED
        if command.recurs:
            # What its rule asks for is seen in the state: see checks.overdue.
            return Standing.UNSURE
        if command.when < 0:
            return Standing.REFUSED
        if any(ts >= command.when and rev < command.rev for rev, ts in self._dispatched):
            return Standing.REFUSED
        behind_ms = command.accepted_ms - command.when
        too_far_back = behind_ms > PAST_LIMIT_MS and not command.allow_past
        # What the task ran before the log was cut may have been later than a run_at that lay in the past.
        ran_unseen = behind_ms > 0 and bounds.cut(bounds.names.work(command.queue), self._history.bucket)
        if too_far_back or ran_unseen or command.not_after != NEVER:
            return Standing.UNSURE
        return None

    # ------------------------------------------------------------------ fate

    def _fate(self, command: Asked, standing: Standing, undone_by: Verb | None) -> Fate:
        has_work = command.when in self._occurrences
        if standing is Standing.REFUSED:
            claims_work = self.verdict_of(command) in _CLAIMS_WORK
            if claims_work and not has_work and not self._beyond_log(command):
                return Fate.LOST
            return Fate.SET_ASIDE if command.command_id in self._aside else Fate.REFUSED
        if (command.rev, command.when) in self._dispatched or (command.recurs and command.rev in self._revs):
            return Fate.DISPATCHED
        if undone_by is not None:
            return Fate.CANCELLED if undone_by is Verb.CANCEL else Fate.SUPERSEDED
        if command.recurs:
            # Nothing was dispatched yet: what is overdue shows in the state (checks.overdue).
            return Fate.WAITING
        if has_work:
            return Fate.DISPATCHED
        if max(command.when, command.accepted_ms) > self._case.bounds.cutoff_ms:
            return Fate.WAITING
        if self._history.parked and self._history.waiting_for == command.when:
            return Fate.PARKED
        if standing is Standing.UNSURE or self._beyond_log(command):
            return Fate.UNCHECKED
        return Fate.LOST

    def _beyond_log(self, command: Asked) -> bool:
        """Whether this occurrence's work would lie before what was read of its queue's log."""
        bounds = self._case.bounds
        topic = bounds.names.work(command.queue)
        if not bounds.cut(topic, self._history.bucket):
            return False
        oldest_ms = bounds.first_decided_ms.get((topic, self._history.bucket), bounds.cutoff_ms)
        return max(command.when - command.lead_ms, command.accepted_ms) <= oldest_ms


def _undoes(command: Asked, standing: Standing) -> bool:
    """Whether `command` may have put an end to a waiting definition before it."""
    if standing is Standing.REFUSED:
        return False
    if command.verb is Verb.SCHEDULE:
        return not command.rejects
    return command.verb in (Verb.CANCEL, Verb.RESCHEDULE)
