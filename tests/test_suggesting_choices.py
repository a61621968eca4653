"""What may be chosen beside the layers, to the last of it: chunks, microbatch groups, the least of each stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ppdsl.suggesting import NoLayoutError, Problem, suggest
from tests.suggest_cases import weigh


def test_a_chosen_vpp_may_give_mtp_layers_and_the_loss_stages_of_their_own() -> None:
    problem = Problem(weigh(E=10.0, t=10.0, L=10.0), 3, 3, 3, mtp_num_layers=1, vpp=None)
    answer = suggest(problem)
    assert (answer.plan.layout, answer.optimal) == ("E|(t|)*3m|L", True)
    assert answer.time == pytest.approx(suggest(replace(problem, vpp=2)).time)


def test_all_microbatches_are_one_of_the_groups_and_groups_left_out_are_not_claimed() -> None:
    problem = Problem(weigh(t=1.0, L=3.0, c=1.0), 5, 2, 24, vpp=2, group=0)
    answer = suggest(problem)
    assert answer.time <= suggest(replace(problem, group=24)).time
    assert not answer.optimal


@pytest.mark.parametrize(("layers", "cut"), [(4, (2, 2)), (5, (2, 3)), (6, (4, 2)), (7, (4, 3))])
def test_the_least_layers_count_in_the_last_unit_too(layers: int, cut: tuple[int, ...]) -> None:
    assert suggest(Problem(weigh(t=1.0), layers, 2, 2, min_layers=2, unit=2)).per_stage == cut


def test_too_few_layers_for_units_and_the_least_have_no_layout() -> None:
    with pytest.raises(NoLayoutError, match=r"^3 decoder layers cannot fill the stages$"):
        suggest(Problem(weigh(t=1.0), 3, 2, 2, min_layers=2, unit=2))


def test_there_may_be_no_end_to_the_time() -> None:
    assert suggest(Problem(weigh(t=1.0), 9, 2, 2), seconds=float("inf")).optimal
