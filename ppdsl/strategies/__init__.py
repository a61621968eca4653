"""Hypothesis strategies for layouts, plans and schedules, for whoever tests a parser, a planner, an executor or a trainer of their own.

They come with ``pip install ppdsl[testing]``. A parser of Megatron's language is tested like this::

    from hypothesis import given
    from ppdsl.strategies import layouts


    @given(layouts(dialect="megatron"))
    def test_my_parser_reads_every_stage(case):
        assert my_parser(case.text) == [list(stage) for stage in case.stages]

An executor of programs is given ``scheduled_plans()``, and must come to the end of every one of them.
"""

from __future__ import annotations

from ppdsl.strategies.cases import LayoutCase, layouts, plans
from ppdsl.strategies.mutants import Mutant, mutants
from ppdsl.strategies.scheduled import ScheduledPlan, scheduled_plans
from ppdsl.strategies.texts import ALPHABET, alphabet_texts, grammar_texts

__all__ = [
    "ALPHABET",
    "LayoutCase",
    "Mutant",
    "ScheduledPlan",
    "alphabet_texts",
    "grammar_texts",
    "layouts",
    "mutants",
    "plans",
    "scheduled_plans",
]
