"""What the promises demand of each command of a task, given everything that was read of the task.

The topics keep no verdicts for long, so a command's standing is inferred; where the promises leave
it open, nothing is demanded. Only codec, model and topics may enter here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tickstream.model import NEVER, RECENT_COMMANDS, IfExists, Rev, Verb, VerdictKind
from tickstream.ops.audit.fold import Asked, Evidence, TaskEvidence
from tickstream.ops.audit.journal import Acked, Journal

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
    """Not due for longer than the grace."""
    UNCHECKED = auto()
    """Due and without work, where the log no longer holds, or never held, what would prove a loss."""
    LOST = auto()


class Verdicts:
    """Answers to commands, from the journal and from what TaskStates remember."""

    def __init__(self, evidence: Evidence, journal: Journal) -> None:
        self._by_id = dict(evidence.answers)
        for entry in journal.acked:
            command = find_command(evidence, entry)
            if entry.verdict is not None and command is not None:
                # By id, not by place: a re-send gets the answer of the first send.
                self._by_id[command.command_id] = entry.verdict

    def of(self, command: Asked) -> VerdictKind | None:
        """The answer to `command`, None when none is known."""
        return self._by_id.get(command.command_id)


def find_command(evidence: Evidence, entry: Acked) -> Asked | None:
    """The command that lies where the receipt says, None when it is not there."""
    task = evidence.tasks.get(entry.task_id)
    place = Rev(entry.receipt.offset, entry.receipt.item)
    if task is None or evidence.bucket_of(entry.task_id) != entry.receipt.bucket:
        return None
    return next((command for command in task.asked if command.rev == place), None)


@dataclass(frozen=True, slots=True)
class Judge:
    """Decides the standing of commands and the fate of Schedules.

    `cutoff_ms`: what was due at or before this instant must have been dispatched.
    """

    evidence: Evidence
    verdicts: Verdicts
    cutoff_ms: int

    def standings(self, task_id: str, task: TaskEvidence) -> list[Standing]:
        """The standing of each command of the task, in log order."""
        seen: dict[bytes, int] = {}
        """command_id → how many other commands of the task came before its first send."""
        traceless: set[bytes] = set()
        asked_before = False
        found: list[Standing] = []
        for command in task.asked:
            if command.command_id not in seen and not asked_before and command.verb is Verb.CANCEL:
                # It may have met no task: then nothing remembers it, and a re-send is as good as new.
                traceless.add(command.command_id)
            since = None
            if command.command_id in seen and command.command_id not in traceless:
                since = len(seen) - seen[command.command_id] - 1
            standing = self._standing(task, command, since)
            if standing is None:
                may_meet_one = asked_before or self._is_purged(task_id)
                rejects = command.options.if_exists is IfExists.REJECT
                standing = Standing.UNSURE if rejects and may_meet_one else Standing.EFFECTIVE
            seen.setdefault(command.command_id, len(seen))
            asked_before |= command.verb is Verb.SCHEDULE and standing is not Standing.REFUSED
            found.append(standing)
        return found

    def _is_purged(self, task_id: str) -> bool:
        """Whether commands of this task may be gone from the start of its log."""
        return self.evidence.purged(self.evidence.names.commands, self.evidence.bucket_of(task_id))

    def _standing(self, task: TaskEvidence, command: Asked, since: int | None) -> Standing | None:
        """The standing as far as this command alone shows it; None: what stood before it decides.

        `since`: of a re-send, how many other commands came after the first send.

        A re-send changes nothing (G6) while the task remembers the first send. A Schedule that
        finds a later or the same instant dispatched already is refused: had it come first, the older
        definition would have been replaced and not dispatched. (Once a task is forgotten, such a
        Schedule is taken again; the loss of that one goes unnoticed.)
        """
        answer = self.verdicts.of(command)
        if since is not None:
            return Standing.REFUSED if since <= RECENT_COMMANDS else Standing.UNSURE
        if answer is not None:
            return Standing.REFUSED if answer in _REFUSALS else Standing.EFFECTIVE
        if command.verb is Verb.CANCEL:
            return Standing.UNSURE
        if any(work.rev == command.rev for work in task.dispatched):
            return Standing.EFFECTIVE
        if command.queue not in self.evidence.layout.queues or command.when < 0:
            return Standing.REFUSED
        if any(w.occurrence_ts >= command.when and w.rev < command.rev for w in task.dispatched):
            return Standing.REFUSED
        too_far_back = command.accepted_ms - command.when > PAST_LIMIT_MS and not command.options.allow_past
        if too_far_back or command.options.not_after != NEVER:
            return Standing.UNSURE
        return None

    def fates(self, task_id: str, task: TaskEvidence) -> list[tuple[Asked, Fate]]:
        """Every Schedule of the task with its fate, last first."""
        found: list[tuple[Asked, Fate]] = []
        undone_by: Verb | None = None
        for command, standing in zip(
            reversed(task.asked), reversed(self.standings(task_id, task)), strict=True
        ):
            if command.verb is Verb.SCHEDULE:
                found.append((command, self._fate(task_id, task, command, standing, undone_by)))
            if _undoes(command, standing):
                undone_by = command.verb
        return found

    def _fate(
        self, task_id: str, task: TaskEvidence, command: Asked, standing: Standing, undone_by: Verb | None
    ) -> Fate:
        has_work = any(work.occurrence_ts == command.when for work in task.dispatched)
        if standing is Standing.REFUSED:
            claims_work = self.verdicts.of(command) in _CLAIMS_WORK
            if claims_work and not has_work and not self._beyond_log(task_id, command):
                return Fate.LOST
            return Fate.REFUSED
        if any(work.rev == command.rev and work.occurrence_ts == command.when for work in task.dispatched):
            return Fate.DISPATCHED
        if undone_by is not None:
            return Fate.CANCELLED if undone_by is Verb.CANCEL else Fate.SUPERSEDED
        if has_work:
            return Fate.DISPATCHED
        if max(command.when, command.accepted_ms) > self.cutoff_ms:
            return Fate.WAITING
        if standing is Standing.UNSURE or self._beyond_log(task_id, command):
            return Fate.UNCHECKED
        return Fate.LOST

    def _beyond_log(self, task_id: str, command: Asked) -> bool:
        """Whether this occurrence's work would have been purged from its queue's log by now."""
        topic = self.evidence.names.work(command.queue)
        bucket = self.evidence.bucket_of(task_id)
        if not self.evidence.purged(topic, bucket):
            return False
        oldest_ms = self.evidence.first_decided_ms.get((topic, bucket), self.cutoff_ms)
        return max(command.when, command.accepted_ms) <= oldest_ms

    def effective_cancels(self, task_id: str, task: TaskEvidence) -> Iterator[tuple[Asked, Asked | None]]:
        """Every Cancel that may have changed the task, with the Schedule that stood when it came.

        Without re-sends: the answer that is known is the first send's.
        """
        sent: set[bytes] = set()
        standing_schedule: Asked | None = None
        for command, standing in zip(task.asked, self.standings(task_id, task), strict=True):
            again = command.command_id in sent
            sent.add(command.command_id)
            if standing is Standing.REFUSED:
                continue
            if command.verb is Verb.SCHEDULE:
                standing_schedule = command
            elif not again:
                yield command, standing_schedule


def _undoes(command: Asked, standing: Standing) -> bool:
    """Whether `command` may have put an end to a waiting definition before it."""
    if standing is Standing.REFUSED:
        return False
    return command.verb is Verb.CANCEL or command.options.if_exists is IfExists.REPLACE
