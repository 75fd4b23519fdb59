"""The take-over of a lane as a small model, and a search through every interleaving of it.

Nothing of tickstream may enter here: the model is written from docs/protocol.md, section 2, and
from what Kafka's transaction coordinator does, so that it can say which of the rules are needed.

**Log**: one partition of the changelog. An entry is a Claim or Work(n), n = 1, 2, …; whoever owns
the lane has to write the next number, so an owner that does not know all that was committed before
it writes a number twice. **Ids**: two transactional ids, a and b, each held by at most one
claimant: the one whose initialisation came last. **Transactions**: a commit or an abort is decided
at the coordinator and reaches the log later ("marker"); until then nobody reads past it, and
neither an initialisation nor a further transaction of that id gets through. A coordinator may abort
an open transaction whenever it likes: a timeout. **Requests** that arrive late are covered: what a
claimant knows does not matter to the step that arrives, so late is the same as the claimant having
been slow. A request that arrives twice is not; so a stray initialisation is a step of its own.

A claimant follows a program: stages one after another, the steps of one stage in any order. It may
crash between any two steps, and whoever crashed or was fenced begins from the first stage again.
Then it owns the lane and writes Work on one id and the other in turn.

What must hold in every state stands in `Broken`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum, IntFlag, auto
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")
A, B = 1, 2
"""The two transactional ids; a set of them is their sum."""
_NAME: Final = {A: "a", B: "b"}
CLAIM: Final = 0
"""The number of an entry that is no Work."""


class Broken(Enum):
    """What no state may show."""

    WORK_TWICE = "a Work is committed twice"
    OUT_OF_ORDER = "the Works committed are not 1, 2, 3, … in the order of the log"
    TWO_OWNERS = "two that have both claimed the lane can each still commit on an id"
    STUCK = "somebody waits for ever"


class Status(IntEnum):
    """Of an entry of the log. Aborted ones are dropped once their marker is there: nobody sees them."""

    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()
    COMMITTED = auto()


class Step(IntFlag):
    """A step of a program; a sum is a stage."""

    INIT_A = auto()
    INIT_B = auto()
    PRODUCE_CLAIM = auto()
    """On a; its offset is the end to read to, unless the program asks for the end otherwise."""
    COMMIT_CLAIM = auto()
    PRODUCE_CLAIM_ON_B = auto()
    COMMIT_CLAIM_ON_B = auto()
    EMPTY_TRANSACTION = auto()
    """On a. It asks nobody, so it "commits" whoever holds a."""
    ASK_END = auto()
    """list_offsets of the true leader."""
    ASK_OLD_LEADER = auto()
    """list_offsets of a leader that is cut off: any earlier end."""
    TAIL = auto()
    """Read to the end, once everything before it is decided."""


_TAKES: Final = Step.COMMIT_CLAIM | Step.COMMIT_CLAIM_ON_B | Step.EMPTY_TRANSACTION
"""Steps after which a claimant holds the lane to be its own."""
_ASKS: Final = Step.ASK_END | Step.ASK_OLD_LEADER
Program = tuple[Step, ...]
"""Stages."""


class Entry(NamedTuple):
    """One entry of the log."""

    of: int
    """The id whose transaction it lies in."""
    number: int
    status: int

    def __str__(self) -> str:
        return f"{f'work {self.number}' if self.number else 'claim'} on {_NAME[self.of]}"


class Claimant(NamedTuple):
    """One claimant, in its present life. Only numbers, so that states sort and hash fast."""

    program: int
    """Place of its program in the model's list: claimants of one program are alike."""
    lives: int
    """Crashes and losses it has left, this life included; 0: gone for good."""
    stage: int = 0
    todo: int = 0
    holds: int = 0
    """The ids of which its epoch is the newest."""
    end: int = 0
    """Entries of the log to read."""
    seen: int = 0
    """The last Work it knows of."""
    turn: int = B
    open: int = 0
    """As an owner: the id on which its Work is produced and not yet committed."""


class State(NamedTuple):
    """Everything."""

    log: tuple[Entry, ...]
    claimants: tuple[Claimant, ...]
    strays: int
    """Initialisations that may still arrive a second time."""


class Explored(NamedTuple):
    """The result of a search."""

    states: int
    """Distinct states; claimants of one program count as alike."""
    broken: Mapping[Broken, tuple[str, ...]]
    """What broke → a shortest way there."""
    believers: int
    """The most claimants that thought, in one state, that they own the lane: zombies among them."""


class Model(NamedTuple):
    """What is explored: the programs that claimants follow, and how far."""

    programs: tuple[Program, ...]
    """Of each claimant; alike ones next to each other."""
    lives: int
    works: int
    """Owners stop after this Work."""
    strays: int = 0
    in_turn: bool = True
    """Whether owners use their ids in turn; else each time whichever they like."""

    def explore(self) -> Explored:
        """Search breadth first, to the last state that follows from none in which Works are wrong."""
        start = State((), tuple(map(self._born, range(len(self.programs)))), self.strays)
        came: dict[State, tuple[State, str] | None] = {start: None}
        known = {_alike(start)}
        queue = deque([start])
        broken: dict[Broken, tuple[str, ...]] = {}
        believers = 0
        while queue:
            state = queue.popleft()
            believers = max(believers, sum(self._owns(c) for c in state.claimants))
            moved = False
            for label, after in self._moves(state):
                moved = moved or not label.endswith("crash")
                key = _alike(after)
                if key in known:
                    continue
                known.add(key)
                came[after] = (state, label)
                wrong = _wrong_works(after)
                for what in (wrong, Broken.TWO_OWNERS if self._two_owners(after) else None):
                    if what and what not in broken:
                        broken[what] = _path(came, after)
                if not wrong:
                    queue.append(after)
            half_way = any(c.lives and not self._owns(c) for c in state.claimants)
            if half_way and not moved and Broken.STUCK not in broken:
                broken[Broken.STUCK] = _path(came, state)
        return Explored(len(known), broken, believers)

    def _born(self, index: int, lives: int | None = None) -> Claimant:
        own = self.programs[index]
        left = self.lives if lives is None else lives
        return Claimant(self.programs.index(own), left, todo=own[0] if left else 0)

    def _owns(self, claimant: Claimant) -> bool:
        return claimant.stage == len(self.programs[claimant.program])

    def _two_owners(self, state: State) -> bool:
        took = [
            c
            for c in state.claimants
            if c.holds and any(stage & _TAKES for stage in self.programs[c.program][: c.stage])
        ]
        return len(took) > 1

    def _moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Every step that anybody can take, and the state it leads to."""
        for index, claimant in enumerate(state.claimants):
            if not claimant.lives:
                continue
            name = f"claimant {index + 1}"
            gone = _with(state, index, self._born(index, claimant.lives - 1))
            yield f"{name}: crash", gone
            if self._owns(claimant):
                for turn in (claimant.turn,) if self.in_turn or claimant.open else (A, B):
                    yield from self._work(state, index, turn, name, gone)
            else:
                for step in Step:
                    if claimant.todo & step:
                        said = step.name.lower().replace("_", " ") if step.name else ""
                        for after in self._step(state, index, step, gone):
                            yield f"{name}: {said}{_FENCED if after is gone else ''}", after
        for place, entry in enumerate(state.log):
            yield from _coordinate(state, place, entry)
        if state.strays:
            for of in (A, B):
                after = _initialise(state, of)[0]
                yield f"a second init {_NAME[of]} arrives", after._replace(strays=state.strays - 1)

    # ----------------------------------------------------------------------- a claimant's steps

    def _step(self, state: State, index: int, step: Step, gone: State) -> Iterator[State]:
        """The states that `step` may lead to; `gone`: the one in which the claimant begins again."""
        claimant = state.claimants[index]
        match step:
            case Step.INIT_A | Step.INIT_B:
                of = A if step is Step.INIT_A else B
                after, through = _initialise(state, of)
                if through:
                    held = after.claimants[index]
                    yield _with(after, index, self._past(held._replace(holds=held.holds | of), step))
                elif after != state:
                    yield after
            case Step.PRODUCE_CLAIM | Step.PRODUCE_CLAIM_ON_B:
                of = A if step is Step.PRODUCE_CLAIM else B
                if not claimant.holds & of:
                    yield gone
                    return
                log = (*state.log, Entry(of, CLAIM, Status.OPEN))
                asks = any(stage & _ASKS for stage in self.programs[claimant.program])
                end = claimant.end if asks else len(log)
                after = state._replace(log=log)
                yield _with(after, index, self._past(claimant._replace(end=end), step))
            case Step.COMMIT_CLAIM | Step.COMMIT_CLAIM_ON_B:
                of = A if step is Step.COMMIT_CLAIM else B
                if not claimant.holds & of:
                    yield gone
                    return
                other = claimant._replace(turn=A + B - of)
                yield _with(_commit(state, of), index, self._past(other, step))
            case Step.EMPTY_TRANSACTION:
                yield _with(state, index, self._past(claimant, step))
            case Step.ASK_END:
                yield _with(state, index, self._past(claimant._replace(end=len(state.log)), step))
            case Step.ASK_OLD_LEADER:
                for end in range(len(state.log) + 1):
                    yield _with(state, index, self._past(claimant._replace(end=end), step))
            case Step.TAIL:
                stretch = state.log[: claimant.end]
                if all(entry.status == Status.COMMITTED for entry in stretch):
                    seen = max((entry.number for entry in stretch), default=0)
                    yield _with(state, index, self._past(claimant._replace(seen=seen, end=0), step))

    def _past(self, claimant: Claimant, step: Step) -> Claimant:
        """The claimant with `step` done: in the next stage once this one is empty."""
        todo = claimant.todo & ~step
        if todo:
            return claimant._replace(todo=todo)
        own, stage = self.programs[claimant.program], claimant.stage + 1
        return claimant._replace(stage=stage, todo=own[stage] if stage < len(own) else 0)

    def _work(self, state: State, index: int, of: int, name: str, gone: State) -> Iterator[tuple[str, State]]:
        """An owner's next step on the id `of`."""
        claimant = state.claimants[index]
        entry = Entry(of, claimant.seen + 1, Status.OPEN)
        if entry.number > self.works:
            return
        if not claimant.holds & of:
            yield f"{name}: {entry}{_FENCED}", gone
        elif claimant.open:
            done = claimant._replace(seen=entry.number, turn=A + B - of, open=0)
            yield f"{name}: commit {entry}", _with(_commit(state, of), index, done)
        elif _unsettled(state.log, of) is None:
            produced = state._replace(log=(*state.log, entry))
            yield f"{name}: produce {entry}", _with(produced, index, claimant._replace(turn=of, open=of))


_FENCED: Final = " (fenced, begins again)"

# --------------------------------------------------------------------------- the coordinator


def _initialise(state: State, of: int) -> tuple[State, bool]:
    """An initialisation as it arrives, and whether it got through.

    With a transaction open it fences the holder and orders the abort, and while a marker is to be
    written it waits: in both cases the client has to ask again.
    """
    place = _unsettled(state.log, of)
    if place is None:
        return _fence(state, of), True
    if state.log[place].status == Status.OPEN:
        return _abort(state, place), False
    return state, False


def _coordinate(state: State, place: int, entry: Entry) -> Iterator[tuple[str, State]]:
    """What the coordinator does by itself with the entry at `place`."""
    match entry.status:
        case Status.OPEN:
            yield f"timeout: {entry} is aborted", _abort(state, place)
        case Status.COMMITTING if entry.number:
            settled = entry._replace(status=Status.COMMITTED)
            yield f"marker: {entry} is committed", state._replace(log=_set(state.log, place, settled))
        case Status.COMMITTING | Status.ABORTING:
            # What is aborted nobody sees, and a Claim once decided says nothing more.
            claimants = tuple(c._replace(end=c.end - 1) if c.end > place else c for c in state.claimants)
            log = state.log[:place] + state.log[place + 1 :]
            yield f"marker: {entry} is decided", state._replace(log=log, claimants=claimants)


def _commit(state: State, of: int) -> State:
    place = _unsettled(state.log, of)
    assert place is not None, "who holds the id has its transaction in the log"
    settled = state.log[place]._replace(status=Status.COMMITTING)
    return state._replace(log=_set(state.log, place, settled))


def _abort(state: State, place: int) -> State:
    """Abort what is open at `place`, and fence who opened it."""
    entry = state.log[place]
    log = _set(state.log, place, entry._replace(status=Status.ABORTING))
    return _fence(state._replace(log=log), entry.of)


def _fence(state: State, of: int) -> State:
    return state._replace(claimants=tuple(c._replace(holds=c.holds & ~of) for c in state.claimants))


def _unsettled(log: tuple[Entry, ...], of: int) -> int | None:
    """Where the id's transaction lies that is open or waits for its marker."""
    for place, entry in enumerate(log):
        if entry.of == of and entry.status != Status.COMMITTED:
            return place
    return None


# --------------------------------------------------------------------------- states


def _wrong_works(state: State) -> Broken | None:
    decided = [e.number for e in state.log if e.number and e.status in (Status.COMMITTED, Status.COMMITTING)]
    if decided == list(range(1, len(decided) + 1)):
        return None
    return Broken.WORK_TWICE if len(set(decided)) < len(decided) else Broken.OUT_OF_ORDER


def _with(state: State, index: int, claimant: Claimant) -> State:
    return state._replace(claimants=_set(state.claimants, index, claimant))


def _set(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _alike(state: State) -> State:
    """The state with its claimants sorted: who is who changes nothing."""
    return state._replace(claimants=tuple(sorted(state.claimants)))


def _path(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while (back := came[state]) is not None:
        state, label = back
        steps.append(label)
    return tuple(reversed(steps))
