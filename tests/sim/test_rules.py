"""The simulation's oracle of rules and the expander, side by side; and the audit's conditions hold of both."""

from __future__ import annotations

from itertools import islice

from tests.sim.rules import instants
from tickstream.model import Recurrence
from tickstream.ops.audit.facts import Rule
from tickstream.ops.audit.rules import may_name
from tickstream.recurrence.stored import admitted, occurrences_of
from tickstream.testing.sim import make_plan

SEEDS = 150


def _rules() -> set[Recurrence]:
    asked = (command for seed in range(SEEDS) for ask in make_plan(seed).asks for command in ask.commands)
    return {c.options.recurrence for c in asked if c.options.recurrence is not None}


def test_the_oracle_and_the_expander_name_the_same_instants() -> None:
    rules = _rules()
    assert len(rules) > 100
    for rule in rules:
        found = instants(rule)
        expanded = islice(occurrences_of(rule, admitted(rule)).after(found[0] - 1), len(found) + 1)
        assert [pointer.next_occurrence_ts for pointer in expanded] == list(found), rule


def test_the_audits_conditions_let_every_one_of_them_pass() -> None:
    for rule in _rules():
        asked = Rule(rule.kind.value, rule.rule, *rule[2:9])
        assert all(may_name(asked, at) for at in instants(rule)), rule
        assert not any(may_name(asked, at + 3) for at in instants(rule)), rule
