"""What each rank does in test_distributed_transport: one case after another over torch.distributed, each with what it expects.

``torchrun … transport_worker.py SECONDS``. A rank prints ``done NAME`` behind each case; the first that fails ends it.
"""

from __future__ import annotations

import faulthandler
import sys
from datetime import timedelta

from torch import distributed as dist

from tests.runtime.transport_exchanges import (
    cross_without_deadlock,
    learn_metadata,
    learn_while_waiting,
    live_side_by_side,
    move_every_type,
    run_inside_subgroups,
    sum_over_sets,
)
from tests.runtime.transport_refusals import (
    give_up_receiving,
    give_up_sending,
    refuse_what_differs,
    send_headers,
    send_headers_of_other_sizes,
)

CASES = [
    move_every_type,
    cross_without_deadlock,
    learn_metadata,
    learn_while_waiting,
    sum_over_sets,
    send_headers,
    send_headers_of_other_sizes,
    refuse_what_differs,
    run_inside_subgroups,
    live_side_by_side,
    give_up_receiving,
    give_up_sending,
]


def main(seconds: str) -> None:
    """Run all cases."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=float(seconds)))
    for case in CASES:
        case(dist.get_world_size())
        print("done", case.__name__, flush=True)  # noqa: T201 -- what the test reads
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
