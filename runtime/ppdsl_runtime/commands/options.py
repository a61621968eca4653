"""The options that commands share: the model, the data, the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ppdsl.cli.assumptions import Quantity
from ppdsl.cli.options import all_of, number
from ppdsl.schedules import NAMES

if TYPE_CHECKING:
    from typing import Any, Literal

    from ppdsl.cli.options import Values

    class ModelValues(Values, total=False):
        """The values of the options that say which model is trained on what."""

        model: str | None
        weights: str | None
        seq: int
        seed: int
        dtype: Literal["fp32", "bf16", "fp16", "fp64"]
        device: Literal["auto", "cpu", "cuda"]
        dropout: float | None

    class RunValues(ModelValues, total=False):
        """The same, with those that say how it is trained."""

        data: str | None
        global_batch_size: int
        steps: int
        lr: float
        optimizer: Literal["adamw", "sgd"]
        weight_decay: float
        clip: float | None
        autocast: Literal["bf16", "fp16"] | None
        fp32_grads: bool
        dump_gradients: str | None
        log: str | None
        quiet: bool


class Place(click.ParamType):  # type: ignore[type-arg]  # generic only in later versions of click
    """The path of a file or a folder. Whether it is there is for the command to say."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 -- click's signature
        """Take it as it is, or fail with a usage error where it is empty, as an unset variable of the shell is."""
        if not value:
            self.fail("the path is empty", param, ctx)
        return str(value)


_MOST_SEED = 2**63 - 1

DTYPES = ("fp32", "bf16", "fp16", "fp64")

model_options = all_of(
    click.option("--model", metavar="NAME", help="A shape by name, with changes: gpt2-tiny,layers=12; or as JSON. [default: gpt2-tiny]"),
    click.option(
        "--weights", type=Place(), metavar="PATH", help="Start from a Hugging Face safetensors folder, or an llm.c .bin checkpoint."
    ),
    click.option("--seq", type=click.IntRange(1), default=64, metavar="N", help="Sequence length. [default: 64]"),
    click.option("--seed", type=click.IntRange(0, _MOST_SEED), default=0, metavar="N", help="Of random weights and dropout. [default: 0]"),
    click.option("--dtype", type=click.Choice(DTYPES), default="fp32", help="Of parameters and activations; fp32 by default."),
    click.option("--device", type=click.Choice(("auto", "cpu", "cuda")), default="auto", help="auto is cuda where there is one."),
    click.option("--dropout", type=Quantity(), metavar="X", help="Dropout, seeded so that layouts agree; off by default."),
)

run_options = all_of(
    click.option(
        "--data",
        type=Place(),
        metavar="FILE",
        help="llm.c tokens (.bin), or any text, read as bytes; by default the text of Python's topics.",
    ),
    click.option("--global-batch-size", type=click.IntRange(1), default=8, metavar="N", help="Sequences of a step. [default: 8]"),
    click.option("--steps", type=click.IntRange(1), default=20, metavar="N", help="Optimizer steps. [default: 20]"),
    click.option("--lr", type=Quantity(), default="0.001", metavar="X", help="Learning rate. [default: 0.001]"),
    click.option("--optimizer", type=click.Choice(("adamw", "sgd")), default="adamw", help="adamw by default."),
    click.option("--weight-decay", type=Quantity(), default="0", metavar="X", help="Weight decay, of all parameters alike. [default: 0]"),
    click.option("--clip", type=Quantity(), metavar="X", help="Clip the gradient's norm over all ranks."),
    click.option("--dump-gradients", type=Place(), metavar="DIR", help="Write each parameter's gradient of the first step as .npy."),
    click.option(
        "--jsonl",
        "--log",
        "log",
        type=Place(),
        metavar="FILE",
        help="Write a line of JSON for each step. (torchrun may stumble over --log.)",
    ),
    click.option("--quiet", is_flag=True, help="No progress."),
)

precision_options = all_of(
    click.option("--autocast", type=click.Choice(("bf16", "fp16")), help="Cast forwards by autocast; off by default."),
    click.option("--fp32-grads", is_flag=True, help="Accumulate the gradients of 16-bit parameters in fp32."),
)

pipeline_options = all_of(
    number("--microbatches", "Microbatches of a step. [default: 2 x pp, or --global-batch-size where that is less]"),
    number("--batch", "Sequences of a microbatch, instead of --microbatches."),
    number("--microbatch-group-size", "Microbatches that a stage works through before the next; pp by default."),
    click.option("--schedule", type=click.Choice(NAMES), help="1f1b by default, interleaved_1f1b where vpp > 1, else auto."),
    click.option(
        "--depth", type=click.IntRange(0), metavar="N", help="Actions ahead of its use at which a receive is posted; 1 by default."
    ),
    click.option("--plan", type=Place(), metavar="FILE", help="Instead of a layout: what ppdsl compile -o FILE wrote; it is proved again."),
    click.option("--checkpoint-activations", is_flag=True, help="Recompute each chunk's activations in its backward."),
    click.option("--timeout", type=Quantity(), default="600", metavar="S", help="Seconds that a rank waits at most. [default: 600]"),
    click.option(
        "--trace", type=Place(), metavar="FILE", help="Write the last step, as measured, as a Chrome trace, which Perfetto opens."
    ),
    click.option("--profile", type=Place(), metavar="FILE", help="Write the stages' measured times as JSON."),
)
