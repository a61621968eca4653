from __future__ import annotations

import pytest

from ppdsl.launch_files import read_launch_text
from tests.shell_scripts import FLAG, configs, layouts, report, sizes

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
