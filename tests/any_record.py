"""Any value of each kind of record, for the property tests of the codec.

Every field is described: one left to its type would be filled with integers that no Avro long holds.
"""

from typing import Any

from hypothesis import strategies as st

from tickstream.model import (
    DEFAULT_OPTIONS,
    NO_EXTRAS,
    Body,
    CalendarAnswer,
    Claim,
    Command,
    Extras,
    History,
    IfExists,
    InputPosition,
    Options,
    Outcome,
    Progress,
    QueueLimits,
    QueueState,
    Receipt,
    RecentCommand,
    Report,
    ReportKind,
    Rev,
    RunState,
    RunTerms,
    Signal,
    SignalKind,
    TaskSpec,
    TaskState,
    Verb,
    Verdict,
    VerdictConflict,
    VerdictKind,
    Work,
)


def built(record: type[Any], *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Records made of these fields, in their order; an AssertionError if one has no description."""
    names: tuple[str, ...] = record._fields
    assert len(fields) == len(names), (
        f"{record.__name__} has {len(names)} fields, {len(fields)} are described"
    )
    return st.builds(record, *fields)


ids = st.binary(min_size=16, max_size=16)
ints = st.integers(-(2**31), 2**31 - 1)
# Instants and small numbers besides: few of all longs have short encodings.
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 200) | st.integers(1 << 40, 1 << 42)
texts = st.text(max_size=20)
blobs = st.binary(max_size=40) | st.binary(min_size=1000, max_size=1500)
revs = built(Rev, longs, ints)
terms = built(RunTerms, ints, ints, ints, ints, ints)
options = st.one_of(
    st.just(DEFAULT_OPTIONS),
    # Recurrence and limits: tests/property/test_encoders_by_hand.py.
    built(
        Options,
        st.sampled_from(IfExists),
        st.booleans(),
        longs,
        st.booleans(),
        st.none() | terms,
        texts,
        ints,
        st.none() | built(Rev, st.integers(0, 2**63 - 1), ints),
        st.none(),
        st.none(),
        blobs,
    ),
)
commands = built(Command, ids, st.sampled_from(Verb), texts, longs, texts, options, blobs)
reports = built(
    Report,
    st.sampled_from(ReportKind),
    texts,
    longs,
    ints,
    ids,
    texts,
    longs,
    longs,
    longs,
    texts,
    longs,
    blobs,
    ints,
    texts,
)
runs = built(
    RunState,
    longs,
    ints,
    revs,
    longs,
    blobs,
    texts,
    ints,
    ints,
    longs,
    longs,
    st.lists(texts, max_size=2).map(tuple),
    st.booleans(),
)
extras = built(
    Extras,
    longs,
    ints,
    st.none() | longs,
    longs,
    st.booleans(),
    texts,
    texts,
    st.lists(longs, max_size=3).map(tuple),
    ints,
    longs,
    longs,
    st.lists(longs, max_size=3).map(tuple),
)
recent = built(RecentCommand, ids, st.sampled_from(VerdictKind), texts, blobs)
positions = built(InputPosition, ids, longs, ints, ints)
conflicts = built(VerdictConflict, longs, texts, longs, longs, longs, texts, texts, st.booleans())
answers = built(
    CalendarAnswer, texts, texts, st.lists(conflicts, max_size=2).map(tuple), st.booleans(), longs
)
verdicts = built(
    Verdict,
    ids,
    st.sampled_from(VerdictKind),
    texts,
    built(Receipt, ints, longs, ints),
    texts,
    longs,
    texts,
    st.lists(longs, max_size=3).map(tuple),
    st.none() | answers,
)


def _tuples_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "Body": built(
        Body,
        texts,
        blobs,
        st.dictionaries(texts, texts, max_size=3),
        st.dictionaries(texts, texts, max_size=3),
    ),
    "CalendarAnswer": answers,
    "Claim": built(Claim, texts, ints, ints, longs),
    "Command": commands,
    "History": built(
        History,
        longs,
        texts,
        longs,
        ints,
        revs,
        st.sampled_from(Outcome),
        longs,
        texts,
        texts,
        texts,
        blobs,
        longs,
        longs,
        longs,
        longs,
        texts,
        blobs,
        longs,
        ints,
    ),
    "Progress": built(Progress, positions, positions, longs, longs, longs, texts, ints, texts),
    "QueueState": built(
        QueueState,
        texts,
        st.booleans(),
        st.none() | built(QueueLimits, ints, ints, ints),
        _tuples_of(recent),
    ),
    "Signal": built(Signal, ids, st.sampled_from(SignalKind), texts, longs, ints),
    "TaskSpec": built(TaskSpec, revs, blobs, st.sampled_from(VerdictKind)),
    "TaskState": built(
        TaskState,
        revs,
        longs,
        longs,
        _tuples_of(runs),
        st.none() | st.sampled_from(Outcome),
        longs,
        _tuples_of(recent),
        longs,
        st.just(NO_EXTRAS) | extras,
    ),
    "Work": built(
        Work, ints, longs, texts, longs, ints, revs, longs, ints, ints, blobs, longs, ints, st.booleans()
    ),
}
