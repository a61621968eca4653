from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.runtime.launching import LaunchError, find_tagged, run_torchrun

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

SECONDS = 120


def write_script(folder: Path, text: str) -> Path:
    """Write what the ranks do. They wait for files, not for some time, so that nothing hangs on how fast the machine is."""
    start = """
    import json, os, signal, sys, time
    from pathlib import Path
    from tests.runtime.launching import TAG, find_tagged

    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])

    def wait_for(mark):
        for _ in range(10_000):
            if (folder / mark).exists():
                return
            time.sleep(0.01)
        sys.exit(f"waited for {mark} in vain")

    """
    script = folder / "script.py"
    script.write_text(dedent(start) + dedent(text), encoding="utf-8")
    return script


def test_what_each_rank_says_is_shown_when_one_fails(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        print(f"rank {rank} of {os.environ['WORLD_SIZE']} with {os.environ['OMP_NUM_THREADS']} thread", flush=True)
        (folder / str(rank)).touch()
        wait_for("0")
        wait_for("1")
        if rank == 1:
            raise ValueError("rank 1 has had enough")
        wait_for("the end")
        """,
    )
    with pytest.raises(LaunchError, match=r"^script\.py on 2 ranks ended with status 1\n") as caught:
        run_torchrun(script, [str(tmp_path)], 2, SECONDS)
    lines = str(caught.value).splitlines()
    assert lines[1:3] == ["[0] rank 0 of 2 with 1 thread", "[1] rank 1 of 2 with 1 thread"]
    assert "[1] ValueError: rank 1 has had enough" in lines


def test_a_rank_that_is_done_is_no_fault(tmp_path: Path) -> None:
    script = write_script(tmp_path, "print('done', file=sys.stderr)")
    done = run_torchrun(script, [str(tmp_path)], 1, SECONDS)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("[0] done\n")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not tell which processes are left")
def test_ranks_whose_torchrun_is_gone_are_killed(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (folder / str(rank)).touch()
        if rank == 1:
            wait_for("0")
            tag = os.environ[TAG]
            (folder / "launch.json").write_text(json.dumps([tag, os.getpid(), os.getppid(), *find_tagged(tag)]))
            os.kill(os.getppid(), signal.SIGKILL)
        wait_for("the end")
        """,
    )
    done = run_torchrun(script, [str(tmp_path)], 2, SECONDS, check=False)
    assert done.returncode == -9
    tag, rank, torchrun, *running = json.loads((tmp_path / "launch.json").read_text(encoding="utf-8"))
    assert {rank, torchrun} < {*running}
    assert len(running) >= 3
    assert [*find_tagged(tag)] == []


def test_time_is_up(tmp_path: Path) -> None:
    script = write_script(tmp_path, 'wait_for("the end")')
    with pytest.raises(LaunchError, match=r"^script\.py on 2 ranks was not done after 0\.5 s\n"):
        run_torchrun(script, [str(tmp_path)], 2, 0.5)
