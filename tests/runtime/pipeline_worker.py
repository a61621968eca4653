"""What each rank does in test_pipeline_ranks: one case after another, each with what it expects.

``torchrun … pipeline_worker.py SECONDS``. A rank prints ``done NAME`` behind each case; the first that fails ends it.
"""

from __future__ import annotations

import faulthandler
import sys
from datetime import timedelta

from torch import distributed as dist

from tests.runtime.pipeline_ends import WAIT
from tests.runtime.pipeline_steps import (
    change_shapes,
    check_every_message,
    evaluate_between_steps,
    freeze_or_empty_the_first_stage,
    send_tuples_of_types,
    take_side_inputs,
    tell_everybody,
)
from tests.runtime.pipeline_worlds import (
    let_go_of_outputs,
    pass_through_buffers,
    run_inside_groups,
    run_one_after_another,
    run_side_by_side,
    train_models,
)

CASES = [
    change_shapes,
    freeze_or_empty_the_first_stage,
    send_tuples_of_types,
    take_side_inputs,
    evaluate_between_steps,
    check_every_message,
    tell_everybody,
    train_models,
    run_one_after_another,
    run_side_by_side,
    run_inside_groups,
    let_go_of_outputs,
    pass_through_buffers,
]


def main(seconds: str) -> None:
    """Run all cases."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=WAIT))
    for case in CASES:
        case(dist.get_world_size())
        print("done", case.__name__, flush=True)  # noqa: T201 -- what the test reads
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
