"""The options that commands share, Megatron's names for them, and the ``Options`` that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from ppdsl.options import SCHEDULES, Limits, Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict, TypeVar

    from ppdsl.cli.output import Color
    from ppdsl.options import Placement, Target

    Function = TypeVar("Function", bound=Callable[..., Any])

    class Values(TypedDict, total=False):
        """What click gives a command. A command has those keys whose options it takes; what was not typed is None, False or ()."""

        layouts: tuple[str, ...]
        given_layout: str | None
        launch_files: tuple[str, ...]
        files: bool
        allow_none: bool
        uniform: bool
        partition: str | None
        chunks: str | None
        lists: str | None
        rank_major: str | None
        layer_costs: str | None
        first_stage_layers: int | None
        last_stage_layers: int | None
        account_for_embedding: bool
        account_for_loss: bool
        pp: int | None
        vpp: int | None
        num_layers: int | None
        mtp_num_layers: int | None
        microbatches: int | None
        microbatch_group_size: int | None
        schedule: str | None
        placement: Placement | None
        target: Target | None
        features: tuple[tuple[str, str | None], ...]
        tied_embeddings: bool | None
        max_stages: int | None
        max_text: int | None
        output_format: str
        color: Color
        warn_error: bool
        verbose: bool


ALIASES = {
    "pipeline-model-parallel-size": "pp",
    "pipeline-parallel": "pp",
    "num-virtual-stages-per-pipeline-rank": "vpp",
    "virtual-pipeline-model-parallel-size": "vpp",
    "virtual-pipeline-parallel": "vpp",
    "microbatch-group-size-per-virtual-pipeline-stage": "microbatch-group-size",
    "microbatch-group-size-per-vp-stage": "microbatch-group-size",
    "decoder-first-pipeline-num-layers": "first-stage-layers",
    "decoder-last-pipeline-num-layers": "last-stage-layers",
    "account-for-embedding-in-pipeline-split": "account-for-embedding",
    "account-for-loss-in-pipeline-split": "account-for-loss",
    "untie-embeddings-and-output-weights": "untied-embeddings",
    "pipeline-layer-partition": "partition",
    "pipeline-chunk-layout": "chunks",
    "pipeline-layer-costs": "layer-costs",
    "hidden-size": "hidden",
    "seq-length": "seq",
    "vocab-size": "vocab",
    "micro-batch-size": "batch",
    "num-attention-heads": "heads",
    "num-query-groups": "kv-heads",
    "ffn-hidden-size": "ffn",
    "swiglu": "gated",
}
"""Names that Megatron-LM and InfiniTrain use, and ours."""

FORMATS = ("text", "concise", "json", "sarif", "github")
TARGETS = ("ppdsl", "megatron", "mindspeed", "infinitrain")
_MOST_DIGITS = 30


class Shown(Exception):  # noqa: N818 -- no error: it carries a text that ends the command, and is its whole output
    """The text that ``--help`` or ``--version`` asks for."""


class Number(click.ParamType):  # type: ignore[type-arg]  # generic only in later versions of click
    """A whole number in ASCII digits. Whether it is in range is for the compiler to say."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 -- click's signature
        """Read it, or fail with a usage error."""
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            self.fail(f"'{_clip(value)}' is not a whole number", param, ctx)
        if len(digits) > _MOST_DIGITS:
            self.fail(f"a number of {len(digits)} digits is out of range", param, ctx)
        return int(value)


class Feature(click.ParamType):  # type: ignore[type-arg]  # the same
    """A flag of the target, as ``name`` or ``name=value``."""

    name = "feature"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str | None]:  # noqa: ANN401 -- click's signature
        """Read it, or fail with a usage error."""
        name, equals, setting = value.partition("=")
        name = name.removeprefix("--").replace("_", "-")
        from difflib import get_close_matches  # noqa: PLC0415 -- needed only where there is a feature

        from ppdsl.validation.targets import FEATURES  # noqa: PLC0415 -- the same

        if name not in FEATURES:
            near = get_close_matches(name, FEATURES, 1)
            self.fail(f"no such feature '{_clip(value)}'{f', did you mean {near[0]}?' if near else ''}", param, ctx)
        return name, setting if equals else None


def _clip(text: str) -> str:
    most = 40
    return text if len(text) <= most else f"{text[:most]}..."


def normalize_name(name: str) -> str:
    """Give our name of an option: underscores may stand for dashes, and other frameworks' names for ours."""
    if name in SCHEDULES:  # click asks for the choices of an option too
        return name
    dashed = name.replace("_", "-")
    return ALIASES.get(dashed, dashed)


def _show_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
    del parameter
    if value and not context.resilient_parsing:
        raise Shown(context.get_help())


def all_of(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Put options on a command, in the order of its help."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def number(name: str, text: str) -> Callable[[Function], Function]:
    """Make an option that is a whole number."""
    return click.option(name, type=Number(), metavar="N", help=text)


help_option = click.option("-h", "--help", is_flag=True, is_eager=True, expose_value=False, callback=_show_help, help="Show this and exit.")

layout_inputs = all_of(
    click.argument("layouts", metavar="[LAYOUT]", nargs=-1),
    click.option("--pipeline-model-parallel-layout", "given_layout", metavar="LAYOUT", hidden=True),
    click.option("--from", "launch_files", metavar="FILE", multiple=True, help="Find layouts and sizes in a launch file. Repeatable."),
    click.option("--files", is_flag=True, help="The arguments are launch files."),
    click.option("--allow-none", is_flag=True, help="A launch file without a layout is no error."),
    click.option("--uniform", is_flag=True, help="Instead of LAYOUT: split --num-layers evenly over --pp x --vpp stages."),
    click.option("--partition", metavar="4,8,6,6", help="Instead of LAYOUT: decoder layers of each rank."),
    click.option("--chunks", metavar="0:3,1:3", help="Instead of LAYOUT: rank:layers of each stage."),
    click.option("--list", "lists", metavar="LIST", help="Instead of LAYOUT: Megatron's list form, as JSON or Python."),
    click.option("--rank-major", metavar="3,4,4,4", help="Instead of LAYOUT: decoder layers of all chunks of rank 0, then of rank 1, ..."),
    click.option("--layer-costs", metavar="1,1,1,L:2", help="Instead of LAYOUT: a cost a layer; the best split, one stage a rank."),
    number("--first-stage-layers", "Instead of LAYOUT: decoder layers of the first rank, the rest split evenly."),
    number("--last-stage-layers", "The same for the last rank."),
    click.option("--account-for-embedding", is_flag=True, help="Count the embedding as a layer in an even split."),
    click.option("--account-for-loss", is_flag=True, help="Count the loss as a layer in an even split."),
)

split_options = all_of(
    number("--pp", "Pipeline ranks."),
    number("--vpp", "Stages on a rank (virtual pipeline size)."),
    number("--num-layers", "Decoder layers of the model."),
    number("--mtp-num-layers", "MTP layers of the model."),
    click.option("--placement", type=click.Choice(("loop", "v")), help="Which rank owns which stage; loop by default."),
)

limit_options = all_of(
    number("--max-stages", "Refuse a layout of more stages. [default: 1048576]"),
    number("--max-text", "Refuse a longer layout. [default: 65536 characters]"),
)

size_options = all_of(
    split_options,
    number("--microbatches", "Microbatches of a step."),
    number("--microbatch-group-size", "Microbatches that a stage works through before the next; pp by default."),
    click.option("--schedule", type=click.Choice(SCHEDULES), help="1f1b by default, interleaved_1f1b where vpp > 1, else auto."),
    click.option("--target", type=click.Choice(TARGETS), help="The framework that is to read the layout; ppdsl by default."),
    click.option(
        "--with", "features", type=Feature(), multiple=True, metavar="FEATURE", help="A flag of the target that is on. Repeatable."
    ),
    click.option(
        "--tied-embeddings/--untied-embeddings",
        default=None,
        help="Whether the lm-head shares the embedding's weight: says which ranks hold a copy.",
    ),
    limit_options,
)

color_option = click.option(
    "--color", type=click.Choice(("auto", "always", "never")), default="auto", help="When to colour; auto by default."
)

document_option = click.option(
    "--output-format", type=click.Choice(("text", "json")), default="text", help="How to print; text by default."
)

severity_options = all_of(
    click.option("--warn-error", is_flag=True, help="A warning counts like an error."),
    click.option("-v", "--verbose", is_flag=True, help="Show infos too."),
)

report_options = all_of(
    click.option("--output-format", type=click.Choice(FORMATS), default="text", help="How to print; text by default."),
    color_option,
    severity_options,
)

ALIASES_NOTE = "Megatron's own names of these options are accepted too, with dashes or underscores."


def compile_options(values: Values) -> Options:
    """Make the options that the compiler takes from what was typed."""
    default = Limits()
    return Options(
        pp=values.get("pp"),
        vpp=values.get("vpp"),
        num_layers=values.get("num_layers"),
        mtp_num_layers=values.get("mtp_num_layers"),
        microbatches=values.get("microbatches"),
        microbatch_group_size=values.get("microbatch_group_size"),
        schedule=values.get("schedule"),
        placement=values.get("placement"),
        target=values.get("target") or "ppdsl",
        features=values.get("features", ()),
        tied_embeddings=values.get("tied_embeddings"),
        limits=Limits(
            text=default.text if (text := values.get("max_text")) is None else text,
            stages=default.stages if (stages := values.get("max_stages")) is None else stages,
            depth=default.depth,
        ),
    )


def refuse(message: str) -> NoReturn:
    """End the command with a usage error.

    Raises:
        click.UsageError: Always.
    """
    raise click.UsageError(message, click.get_current_context())
