from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ppdsl.launch_files import read_launch_text
from ppdsl.rendering import render_text

if TYPE_CHECKING:
    from ppdsl.launch_files import LaunchConfig
    from ppdsl.launch_files.settings import Value

FLAG = "--pipeline-model-parallel-layout"


def configs(script: str) -> tuple[LaunchConfig, ...]:
    return read_launch_text(script, "run.sh").configs


def layouts(script: str) -> list[Value]:
    return [config.layout.value if config.layout else None for config in configs(script)]


def sizes(script: str) -> dict[str, Value]:
    (config,) = configs(script)
    return {setting.name: setting.value for setting in config.settings}


def report(script: str) -> str:
    (config,) = configs(script)
    return render_text(config.diagnostics, read_launch_text(script, "run.sh").file_source)


WORDS = [
    ("'Et*3|(tt|)*29,m|L'", "Et*3|(tt|)*29,m|L"),
    ('"Et*3|(tt|)*29,m|L"', "Et*3|(tt|)*29,m|L"),
    (r"Et\*3\|\(tt\|\)\*29,m\|L", "Et*3|(tt|)*29,m|L"),
    (r'"Et\|tL"', r"Et\|tL"),
    ("\"'Et|tL'\"", "'Et|tL'"),
    (r"$'Et|\x74\114'", "Et|tL"),
    (r"$'Et\u007ctL\n'", "Et|tL\n"),
    (r"$'Et\'\"\q\U0010ffffL\U00110000'", "Et'\"q\U0010ffffL\ufffd"),
    ('$"Et|tL"', "Et|tL"),
    ("'Et|'\"t\"L", "Et|tL"),
    ("'Et|'\\\n'tL'", "Et|tL"),
    ('"Et|\\\ntL"', "Et|tL"),
    ('"Et|\n  tL"', "Et|\n  tL"),
    ("EttL", "EttL"),
    ("EttL#no", "EttL#no"),
    ("Ett*2$", "Ett*2$"),
    ('""', ""),
    ('"$UNSET_BEFORE${NOT:-Et|tL}"', None),
    ("${NOT:-'Et|tL'}", "Et|tL"),
    ('"${NOT:-Et|tL}"', "Et|tL"),
    ('"${NOT-Et|tL}"', "Et|tL"),
    ('"${NOT:=Et|tL}"', "Et|tL"),
    ('"${V:-x}"', "Ev|L"),
    ('"${V:+Et|tL}"', "Et|tL"),
    ('"${V:?needed}"', "Ev|L"),
    ('"${V}t"', "Ev|Lt"),
    ("$V", "Ev|L"),
    ("${A[1]}", "second"),
    ('"${A[*]}"', "first second"),
    ("${A}", "first"),
    ('"${A[7]}"', None),
    ('"${NOT:-${V:-x}}"', "Ev|L"),
    ('"${NOT:-a}b}"', "ab}"),
    ("'never closed", "never closed --num-layers 3\n"),
    ('"never closed', "never closed --num-layers 3\n"),
]


@pytest.mark.parametrize(("word", "value"), WORDS)
def test_quotes_escapes_and_variables(word: str, value: str | None) -> None:
    script = f"V='Ev|L'\nA=(first second)\nx {FLAG} {word} --num-layers 3\n"
    assert layouts(script) == [value]


@pytest.mark.parametrize(
    "assign", ["{}", "export {}", "local {}", "declare -r {}", "readonly {}", "typeset {}", "A=1 {}", "{};", "x && {}"]
)
def test_a_variable_has_the_value_last_assigned_above(assign: str) -> None:
    script = "L=old\n" + assign.format("L='Et|L'") + f'\nx {FLAG} "$L"\nL=new\n'
    assert "Et|L" in layouts(script)


def test_assignments_go_on_where_they_say_so() -> None:
    assert layouts(f"L='Et|'\nL+=tL\nx {FLAG} $L") == ["Et|tL"]
    assert layouts(f"A=({FLAG})\nA+=('Et|L')\nx ${{A[@]}}") == ["Et|L"]
    assert layouts(f'A={FLAG}\nA+=("Et|L" --num-layers 2)\nx "${{A[@]}}"') == ["Et|L"]
    assert layouts(f"N+='Et|L'\nx {FLAG} $N") == ["Et|L"]


def test_a_command_ends_where_the_shell_ends_it() -> None:
    script = f"x {FLAG} 'Et|L' --num-layers 2 && y --num-layers 3; z --num-layers 4 | w --num-layers 5 & v --num-layers=6 2>&1 > log\n"
    assert sizes(script) == {"num-layers": "2"}


@pytest.mark.parametrize("redirected", ["> log", "2>&1", "< in", ">> log", "<<< word", "&> log", "< <(ls)", "> >(tee log)"])
def test_a_redirection_is_no_word(redirected: str) -> None:
    assert sizes(f"x {redirected} {FLAG} 'Et|L' --num-layers {redirected} 2") == {"num-layers": "2"}


def test_the_last_of_a_repeated_flag_wins() -> None:
    assert sizes(f"x {FLAG} 'E|L' --num-layers 2 --num_layers=3 {FLAG} 'Et|L' --num-layers 4") == {"num-layers": "4"}
    assert layouts(f"x {FLAG} 'E|L' --num-layers 2 {FLAG} 'Et|L'") == ["Et|L"]


def test_comments_are_not_read() -> None:
    script = f"# x {FLAG} 'no'\nA=( # {FLAG} 'no'\n  --num-layers 2 #--num-layers 3\n)\nx {FLAG} 'Et|L' ${{A[@]}} # --num-layers 4\n"
    assert layouts(script) == ["Et|L"]
    assert sizes(script) == {"num-layers": "2"}


def test_a_comment_between_continued_lines_ends_the_command_but_not_the_file() -> None:
    script = f"x {FLAG} 'Et|L' \\\n  # --num-layers 3 \\\n  --num-layers 2 \\\n  --pp 2\n"
    assert sizes(script) == {"num-layers": "2"}


@pytest.mark.parametrize(
    "use",
    ["eval $C", 'eval "$C"', 'bash -c "$C"', 'bash -c "x && $C"', 'ssh host "$C"', "$C", "run=$($C)", "run=`$C`", 'y=1 bash -c "$C" "$@"'],
)
def test_a_command_in_a_string_is_read_where_it_is_used(use: str) -> None:
    script = f'L="Et|L"\nC="x {FLAG} \'$L\' --num-layers 2"\necho $C\n{use}\n'
    found = configs(script)
    assert [one.layout.value.strip("'") for one in found if one.layout and isinstance(one.layout.value, str)] == ["Et|L"]
    assert [one.value for one in found[0].settings] == ["2"]


def test_scripts_inside_of_scripts_are_read_to_a_limit() -> None:
    script = f"x {FLAG} EL"
    for depth in range(5):
        assert layouts(script) == (["EL"] if depth < 4 else [])
        script = "bash -c '" + script.replace("'", "'\\''") + "'"


def test_flags_that_no_command_gets_are_read_from_where_they_are_kept() -> None:
    script = f'A=(--num-layers 2 {FLAG} "Et|L")\nB=" {FLAG} E|L --num-layers 3"\nC="--num-layers 4 {FLAG} \'EtttL\'"\nB="$B --pp 2"\n'
    found = [(one.layout.value, [size.value for size in one.settings]) for one in configs(script) if one.layout]
    assert found == [("Et|L", ["2"]), ("E|L", ["3", "2"]), ("EtttL", ["4"])]


def test_an_array_that_a_branch_replaces_is_kept() -> None:
    script = f"A=(--a)\nif x; then A+=({FLAG} 'Et|L'); else A+=({FLAG} 'E|tL'); fi\n"
    assert layouts(script) == ["Et|L", "E|tL"]


def test_sizes_of_other_commands_are_taken_where_they_agree() -> None:
    assert sizes(f"x --num-layers 3\ny --num-layers 3\nz {FLAG} 'Et|L'") == {"num-layers": "3"}
    assert report(f"x --num-layers 3\ny --num-layers 4\nz {FLAG} 'Et|L'\n") == (
        "warning[PP205]: --num-layers has 2 values, equally near to the layout\n"
        "  --> run.sh:2:16\n"
        "   |\n"
        " 1 | x --num-layers 3\n"
        "   |                - 3 here\n"
        " 2 | y --num-layers 4\n"
        "   |                ^ 4 here\n"
        "   = note: num-layers is not checked\n"
        "   = help: write it beside the layout"
    )


def test_sizes_of_a_command_with_a_layout_belong_to_that_layout() -> None:
    script = f"x {FLAG} 'Et|L' --num-layers 1\ny {FLAG} 'Ett|L'\n"
    assert [[one.value for one in config.settings] for config in configs(script)] == [["1"], []]


UNKNOWN = [
    ('"$1"', "$1", "this is given when the script is called"),
    ("$@", "$@", "this is given when the script is called"),
    ('"$(get layout)"', "$(get layout)", "this is the output of a command"),
    ("`get`", "`get`", "this is the output of a command"),
    ("<(get)", "<(get)", "this is the output of a command"),
    ("$((1 + 2))", "$((1 + 2))", "arithmetic is not worked out"),
    ("${#V}", "${#V}", "this kind of expansion is not worked out"),
    ("${V%x}", "${V%x}", "this kind of expansion is not worked out"),
    ("${!V}", "${!V}", "this kind of expansion is not worked out"),
    ("$NOT", "$NOT", "NOT is not set in this file"),
    ('"t|${NOT}t"', "${NOT}", "NOT is not set in this file"),
    ("Et|L", "|", "outside of quotes, the shell takes `|` for its own"),
    ("E(t|)*3L", "(", "outside of quotes, the shell takes `(` for its own"),
]


@pytest.mark.parametrize(("word", "carets", "reason"), UNKNOWN)
def test_a_layout_that_cannot_be_told_is_an_error(word: str, carets: str, reason: str) -> None:
    script = f"x {FLAG} {word} --num-layers 2\n"
    (config,) = configs(script)
    assert (config.layout, [one.value for one in config.settings]) == (None, ["2"])
    (diagnostic,) = config.diagnostics
    assert (diagnostic.code, diagnostic.severity, diagnostic.label) == ("PP205", "error", reason)
    assert diagnostic.span is not None
    assert script[diagnostic.span.start : diagnostic.span.end] == carets


def test_a_layout_without_quotes_is_pointed_at_where_the_shell_cuts_it() -> None:
    script = f"train {FLAG} Et*3|(tt|)*29L --num-layers 61 | tee log\n"
    assert report(script) == (
        "error[PP205]: the value of --pipeline-model-parallel-layout cannot be resolved\n"
        "  --> run.sh:1:44\n"
        "   |\n"
        " 1 | train --pipeline-model-parallel-layout Et*3|(tt|)*29L --num-layers 61 | tee log\n"
        "   |                                            ^ outside of quotes, the shell takes `|` for its own\n"
        "   = help: write the layout itself into the file, in quotes"
    )
    assert sizes(script) == {"num-layers": "61"}
    assert layouts(f"A=({FLAG}=Et|(t|)*3L)\nx ${{A[@]}}") == [None]
    assert layouts(f"x {FLAG} EttL|tee log") == ["EttL"]
    assert layouts(f"(x {FLAG} EttL)") == ["EttL"]


def test_a_size_that_cannot_be_told_is_a_warning() -> None:
    assert report(f"x {FLAG} 'Et|L' \\\n  --num-layers $(( 2 * 3 ))\n") == (
        "warning[PP205]: the value of --num-layers cannot be resolved\n"
        "  --> run.sh:2:16\n"
        "   |\n"
        " 2 |   --num-layers $(( 2 * 3 ))\n"
        "   |                ^^^^^^^^^^^^ arithmetic is not worked out\n"
        "   = note: num-layers is not checked"
    )


def test_a_flag_without_a_value_sets_nothing() -> None:
    assert sizes(f"x {FLAG} 'Et|L' --num-layers --mtp-num-layers") == {}
    assert sizes(f"E=\nx {FLAG} 'Et|L' --num-layers $E --mtp-num-layers \"$E\" --pp '2'") == {"pipeline-model-parallel-size": "2"}
    assert layouts(f"E=\nx {FLAG} $E --num-layers 2") == []


def test_switches_stand_alone_or_with_a_word_for_true_or_false() -> None:
    script = (
        f"x {FLAG} 'Et|L' --moe-grouped-gemm --untie-embeddings-and-output-weights false --recompute-in-bubble=True"
        " --no-overlap-p2p-communication --moe-fb-overlap pretrain.py --account-for-loss-in-pipeline-split=maybe"
    )
    assert sizes(script) == {
        "moe-grouped-gemm": True,
        "untie-embeddings-and-output-weights": False,
        "recompute-in-bubble": True,
        "overlap-p2p-communication": False,
        "moe-fb-overlap": True,
        "account-for-loss-in-pipeline-split": "maybe",
    }


def test_spellings_of_other_frameworks_have_megatrons_names() -> None:
    script = (
        f"x {FLAG} 'Et|L' --hybrid-override-pattern M --num_layers_in_first_pipeline_stage 3 --pp-size 2 --vpp 1"
        " --microbatch-group-size-per-virtual-pipeline-stage 4 model.share_embeddings_and_output_weights=true"
    )
    assert sizes(script) == {
        "hybrid-layer-pattern": "M",
        "decoder-first-pipeline-num-layers": "3",
        "pipeline-model-parallel-size": "2",
        "virtual-pipeline-model-parallel-size": "1",
        "microbatch-group-size-per-vp-stage": "4",
        "untie-embeddings-and-output-weights": False,
    }


def test_a_short_spelling_gives_way_to_a_full_one_and_does_not_reach_far() -> None:
    assert sizes(f"x {FLAG} 'Et|L' --pipeline-model-parallel-size 2 --pp 4") == {"pipeline-model-parallel-size": "2"}
    assert sizes(f"y --pp 4\nx {FLAG} 'Et|L'") == {}


def test_dotted_overrides_go_with_the_nearest() -> None:
    script = (
        'x a.actor.cfg.pipeline_model_parallel_layout="Et|L" a.actor.pipeline_model_parallel_size=2 a.ref.num_layers=1'
        " a.ref.pipeline_model_parallel_size=4 +a.actor.cfg.mtp_num_layers=null a.pp=8 pp=9 unknown=1"
    )
    assert sizes(script) == {"pipeline-model-parallel-size": "2", "num-layers": "1"}
    assert read_launch_text("x a.pipeline_model_parallel_layout=null", "run.sh").diagnostics[0].label == "null here"


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
