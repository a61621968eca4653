"""The rules of launch files: what is reported where one says no layout, or says it in a way that cannot be told without running it."""

from __future__ import annotations

from ppdsl.diagnostics import Rule

_RUN = """\
torchrun pretrain_gpt.py \\
    --num-layers 8 --pipeline-model-parallel-size 2 \\
    --pipeline-model-parallel-layout 'Ettt|ttttt,L'
"""

NO_LAYOUT = Rule(
    code="PP204",
    severity="error",
    title="no layout in the file",
    text=(
        "The file names no pipeline layout, or only passes on one that is said elsewhere. Looked for are the flag "
        "`--pipeline-model-parallel-layout`, with dashes or underscores, in shell commands and arrays, the key of that name at any depth "
        "of YAML, JSON and TOML, the keyword, attribute or name in Python, and InfiniTrain's flags for a partition. A layout that is null "
        "or comes from an empty variable is no layout. Where many files are checked at once, `--allow-none` forgives those without one."
    ),
    wrong="check --from plain.sh",
    right="check --from run.sh",
    files={"plain.sh": "torchrun pretrain_gpt.py --num-layers 8 --pipeline-model-parallel-size 2\n", "run.sh": _RUN},
)

UNRESOLVED = Rule(
    code="PP205",
    severity="error",
    title="a value in the file cannot be resolved",
    text=(
        "Launch files are read, never run. A variable that is assigned above is followed, and so is the default of `${VAR:-default}`; the "
        "output of a command, arithmetic, an argument of the script, an interpolation that the configuration library fills in, or a "
        "variable that each branch of an `if` gives another value cannot be told. For the layout this is an error; for anything else a "
        "warning, and that value is not checked. The same is said of a size that the file gives twice, equally near to the layout, with "
        "two values."
    ),
    wrong="check --from wrapper.sh",
    right="check --from run.sh",
    files={"wrapper.sh": 'torchrun pretrain_gpt.py --pipeline-model-parallel-layout "$1"\n', "run.sh": _RUN},
)

UNREADABLE = Rule(
    code="PP206",
    severity="error",
    title="input cannot be read or decoded",
    text=(
        "The file is missing, is no regular file, is larger than 8 MiB, is not text (UTF-8, or UTF-16 with a byte order mark), or is not "
        "valid YAML, JSON, TOML or Python although its name says so."
    ),
    wrong="check --from run.yaml",
    right="check --from fixed.yaml",
    files={
        "run.yaml": "model: [\n  pipeline_model_parallel_layout: EttL\n",
        "fixed.yaml": "model:\n  pipeline_model_parallel_layout: EttL\n",
    },
)

RULES: tuple[Rule, ...] = (NO_LAYOUT, UNRESOLVED, UNREADABLE)
