"""Shell scripts with branches, loops, functions and heredocs, and scripts without end."""

from __future__ import annotations

import time

import pytest

from ppdsl.launch_files import read_launch_text
from tests.shell_scripts import FLAG, configs, layouts, report, sizes

BRANCHES = [
    ("if c; then P=2; else P=2; fi", "2"),
    ("if c; then P=2; elif d; then P=2; else P=2; fi", "2"),
    ("if c; then P=2; else exit 1; fi", "2"),
    ("if c; then P=2; else usage; return 1; fi", "2"),
    ("if c; then P=2; else x || exit 1; P=3; fi", None),
    ("if c; then P=2; else x || { echo; exit 1; }; P=2; fi", "2"),
    ("if c; then P=2; fi", "2"),
    ("P=1; if c; then P=2; fi", None),
    ("P=2; if c; then Q=1; fi", "2"),
    ("if c; then P=2; else P=4; fi", None),
    ("P=2; if c; then P=$1; fi", "2"),
    ("[ -z $P ] && P=2", "2"),
    ("P=2; [ -z $P ] && P=4", None),
    ("case $1 in a) P=2;; b|c) P=2 ;; (d) P=2;& e) exit;; *) P=2; esac", "2"),
    ("case $1 in a) P=2;; *) P=4;; esac", None),
    ("case $1 in a) P=2;; *) exit 1;; esac", "2"),
    ("for i in 1 2; do P=2; done", "2"),
    ("while read x; do P=2; done < list", "2"),
    ("until false; do P=2; done", "2"),
    ("for P in 2; do :; done", "2"),
    ("for P in 2 4; do :; done", None),
    ("for P; do :; done", None),
    ("select P in 2 4; do break; done", None),
    ("for ((i = 0; i < 3; i++)); do P=2; done", "2"),
    ("{ P=2; }", "2"),
    ("if c; then if d; then P=2; else P=2; fi; else P=2; fi", "2"),
    ("if c; then if d; then P=2; else P=3; fi; else P=2; fi", None),
    (": ${P:=2}", "2"),
    ("P=2; unset P; P=${P:-4}", "4"),
    ("if c; then P=2; fi; P=${P:-2}", "2"),
    ("if c; then P=2; fi; P=${P:-3}", None),
    ("read -r P", None),
    ("P[0]=2", None),
    ("fi; else; done; esac; }; P=2", "2"),
    ("exit; P=2", "2"),
    ("if c; then if d; then P=2; exit; fi; fi; P=2", "2"),
    ("if c; then P=3; exit; fi; P=2", "2"),
    ("P=2; if c; then P=3; exit; else P=4; exit; fi", "2"),
    ("P=2; (( P > 1 )) && Q=1", "2"),
    ("[[ $a =~ ^(x|y)$ ]] || P=2", "2"),
    ("if [ $P ]; then P=2", "2"),
    ("case x in", None),
    ("case", None),
    ("function f { P=2; }\nf", "2"),
    ("f() { P=2; }\nf x", "2"),
    ("f()\n{\n  g() { P=2; }\n  g\n}\nf", "2"),
    ("f() { f; P=2; }; f", "2"),
    ("f() ( P=2 )", "2"),
    ("f() {", None),
    ("function", None),
]


@pytest.mark.parametrize(("lines", "value"), BRANCHES)
def test_what_a_variable_is_behind_branches_loops_and_functions(lines: str, value: str | None) -> None:
    found = read_launch_text(f"{lines}\nx {FLAG} 'Et|L' --pipeline-model-parallel-size $P\n", "run.sh").configs
    settings = {one.name: one.value for config in found for one in config.settings}
    assert settings.get("pipeline-model-parallel-size") == value
    assert [one.code for config in found for one in config.diagnostics] == ([] if value or not found else ["PP205"])


def test_a_size_that_depends_on_the_branch_is_shown_with_its_values() -> None:
    script = f"if c; then\n  P=2\nelse\n  P=4\nfi\nx {FLAG} 'Et|L' --pipeline-model-parallel-size $P\n"
    assert report(script) == (
        "warning[PP205]: --pipeline-model-parallel-size depends on which branch runs\n"
        "  --> run.sh:4:5\n"
        "   |\n"
        " 2 |   P=2\n"
        "   |     - 2 here\n"
        "...\n"
        " 4 |   P=4\n"
        "   |     ^ 4 here\n"
        "   = note: pipeline-model-parallel-size is not checked"
    )
    script = f"if c; then\n  P=2\nelse\n  P=$(nproc)\nfi\nx {FLAG} 'Et|L' --pipeline-model-parallel-size $P\n"
    assert report(script) == (
        "warning[PP205]: the value of --pipeline-model-parallel-size cannot be resolved\n"
        "  --> run.sh:6:74\n"
        "   |\n"
        " 2 |   P=2\n"
        "   |     - here it is 2\n"
        "...\n"
        " 6 | x --pipeline-model-parallel-layout 'Et|L' --pipeline-model-parallel-size $P\n"
        "   |                                                                          ^^ its value depends on which branch runs\n"
        "   = note: pipeline-model-parallel-size is not checked"
    )


def test_each_layout_of_a_branch_goes_with_the_sizes_of_that_branch() -> None:
    script = f"""\
if [ $M = small ]; then L='Et|L'; N=1; elif [ $M = large ]; then L='Ett|ttL'; N=4; else exit; fi
x {FLAG} $L --num-layers $N
"""
    assert [(one.layout.value, one.settings[0].value) for one in configs(script) if one.layout] == [("Et|L", "1"), ("Ett|ttL", "4")]


def test_flags_of_the_other_branch_do_not_go_with_a_layout() -> None:
    script = f"""\
A=(--pp 2)
if [ -n "$LAYOUT" ]; then A+=({FLAG} 'Et|L'); else A+=(--num-layers-per-virtual-pipeline-stage 1 --num-layers 8); fi
if c; then A+=(--moe-fb-overlap --num-layers 1); fi
x "${{A[@]}}"
"""
    assert sizes(script) == {"pipeline-model-parallel-size": "2", "num-layers": "1"}
    strings = script.replace("A=(", "A='").replace("A+=(", 'A="$A ').replace("); e", '"; e').replace("); f", '"; f').replace("2)", "2'")
    assert sizes(strings.replace('"${A[@]}"', "$A")) == {"pipeline-model-parallel-size": "2", "num-layers": "1"}


def test_a_function_is_read_with_what_is_set_where_it_is_called() -> None:
    script = f"f() {{ x {FLAG} \"$L\" --num-layers $N; }}\nL='Et|L'; N=1\nf\nL='Ett|L'; N=2\nf\n"
    assert [(one.layout.value, one.settings[0].value) for one in configs(script) if one.layout] == [("Et|L", "1"), ("Ett|L", "2")]
    assert layouts(f"f() {{ x {FLAG} \"$L\"; }}\nL='Et|L'\n") == ["Et|L"]
    assert layouts(f"f() {{ x {FLAG} 'Et|L'; }}\nf; f; f\n") == ["Et|L"]
    assert layouts(f"f {FLAG} 'Et|L'\nf() {{ :; }}\nf {FLAG} 'E|tL'") == ["Et|L", "E|tL"]


def test_heredocs_are_read_as_what_they_look_like() -> None:
    assert layouts("cat > c.yaml <<EOF\npipeline_model_parallel_layout: Et|L\nEOF\n") == ["Et|L"]
    assert layouts('cat > c.json <<-\'EOF\'\n\t{"pipeline_model_parallel_layout": "Et|L"}\n\tEOF\n') == ["Et|L"]
    assert layouts("python3 - <<EOF\nf(pipeline_model_parallel_layout='Et|L')\nEOF\n") == ["Et|L"]
    assert layouts(f"cat <<A | bash\nx {FLAG} 'Et|L'\nA\n") == ["Et|L"]
    assert layouts(f"cat <<A\nx {FLAG} LAYOUT\nsets {FLAG} and\nA\n") == []
    assert layouts("python - <<A\nf(pipeline_model_parallel_layout='Et|L'\nA\n") == []
    assert layouts("cat <<A\npipeline_model_parallel_layout: [Et|L\nA\n") == []
    assert layouts(f"cat <<A <<'B' > c\nx {FLAG} 'E${{X:-t}}L'\nA\nx {FLAG} 'E$X'\nB\nx {FLAG} EL") == ["EtL", "E$X", "EL"]
    assert layouts(f"cat <<A\nx {FLAG} 'Et|L'\n") == ["Et|L"]
    assert layouts(f"cat <<\nx {FLAG} 'Et|L'\n") == ["Et|L"]


def test_printed_commands_and_usage_texts_are_no_commands() -> None:
    script = f'echo "x {FLAG} LAYOUT"\nprintf "%s" "{FLAG} no|no"\nlog {FLAG} \'no\'\nx {FLAG} EL\n'
    assert layouts(script) == ["EL"]


def test_words_of_a_list_in_another_language_are_understood() -> None:
    script = f'ENTRYPOINT ["train", "--num-layers", "2", "{FLAG}", "Et|L"]\n'
    assert layouts(script) == ["Et|L"]
    assert sizes(script) == {"num-layers": "2"}


def test_the_forms_of_infinitrain() -> None:
    (config,) = configs("x --pipeline_layer_partition 4,4 --pipeline_layer_costs=1,1 --pipeline_parallel 2 --num-layers 8\n")
    assert config.layout is None
    assert config.diagnostics == ()
    assert {one.name: one.value for one in config.settings} == {
        "pipeline-layer-partition": "4,4",
        "pipeline-layer-costs": "1,1",
        "pipeline-model-parallel-size": "2",
        "num-layers": "8",
    }
    assert layouts(f"x {FLAG} 'Et|L' --pipeline_chunk_layout 0:1") == ["Et|L"]
    (config,) = configs("x --pipeline_layer_partition $1\n")
    assert [one.severity for one in config.diagnostics] == ["error"]


GROWTH = [
    "A=$A$A\n",
    'A+=(--num-layers 3)\nx "${A[@]}"\n',
    'A="$A --num-layers 3"\nx $A\n',
    'if c; then A="$A --num-layers 3"; fi\nx $A\n',
    'if c; then A="$A $A"; fi\nx $A\n',
    'if c; then A="x $A $A"; fi\nx $A\n',
    'eval "$L$L$L"\n',
]


@pytest.mark.parametrize("line", GROWTH)
def test_variables_that_grow_without_end_are_refused(line: str) -> None:
    script = f"x {FLAG} 'Et|L'\nA=ab\nL='{'x --num-layers 1 ' * 200}'\n{line * 700}x {FLAG} \"$A\"\n"
    (diagnostic,) = read_launch_text(script, "run.sh").diagnostics
    assert diagnostic.message == "cannot read run.sh: it is too intricate to be followed without running it"


def test_functions_that_call_each_other_without_end_are_refused() -> None:
    calls = "".join(f"f{number}() {{ f{number + 1}; f{number + 1}; }}\n" for number in range(40))
    (diagnostic,) = read_launch_text(f"x {FLAG} EL\n{calls}f0\n", "run.sh").diagnostics
    assert diagnostic.message == "cannot read run.sh: it is too intricate to be followed without running it"


DEEP = [
    "$(",
    "${A:-",
    '"$(',
    "'\"`",
    '"',
    "`",
    "\\",
    "(",
    "(( ",
    "a=(",
    "cat <<A\n",
    "if x; then\n",
    "f() {\n",
    "t|",
    "<(",
    "$'",
    "case x in\n",
]


@pytest.mark.parametrize("part", DEEP)
def test_a_long_script_takes_little_time_and_no_recursion(part: str) -> None:
    script = f"x {FLAG} 'Et|L' --num-layers 1\n{part * (30_000 // len(part))}"
    start = time.process_time()
    found = layouts(script)
    assert time.process_time() - start < 10  # seconds; the square of the length would take minutes
    assert found[:1] == ["Et|L"]


def test_an_ordinary_script_of_50_kib_takes_little_time() -> None:
    line = 'torchrun --nproc_per_node "$N" train.py --lr 1e-4 --seq-length ${SEQ:-4096} # why\n'
    script = f"x {FLAG} 'Et|L' --num-layers 1\n{line * (50 * 1024 // len(line))}"
    start = time.process_time()
    assert layouts(script) == ["Et|L"]
    assert time.process_time() - start < 5  # seconds; about 0.05 on a machine that does nothing else
