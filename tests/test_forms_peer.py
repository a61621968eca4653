"""The forms that Megatron-LM has too, against its own code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ppdsl.formatting import format_expanded
from ppdsl.forms import FirstLast, LayerLists, lower
from ppdsl.normal_form import normalize
from ppdsl.options import Options
from ppdsl.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ppdsl.forms import Form

    Settings = tuple[FirstLast, int, int | None, int]
    """The form, pp, vpp, number of layers."""

pytestmark = pytest.mark.peer


def stages(form: Form, options: Options) -> list[str] | None:
    """Write out every stage that a form comes to; None where it is refused."""
    lowered = lower(form, options)
    if lowered.text is None:
        return None
    items = parse(lowered.text, lowered.options.limits).items
    assert items is not None
    text = format_expanded(normalize(items, options.limits), 1_000_000)
    assert text is not None
    return text.split("|")


@pytest.fixture(scope="module")
def build() -> Callable[[FirstLast, int, int | None, int], list[int] | None]:
    """Give a function that asks Megatron-LM for the layers of each stage in forward order; None where it refuses."""
    if sys.version_info < (3, 11):
        pytest.skip("megatron-core needs Python 3.11")
    import torch  # noqa: PLC0415 -- it takes seconds to load
    from megatron.core.transformer.transformer_block import get_num_layers_to_build  # noqa: PLC0415 -- the same
    from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: PLC0415 -- the same

    def ask(form: FirstLast, pp: int, vpp: int | None, num_layers: int) -> list[int] | None:
        try:
            config = TransformerConfig(
                num_layers=num_layers,
                hidden_size=8,
                num_attention_heads=1,
                pipeline_dtype=torch.float32,
                cuda_graph_scope=[],  # what it takes by default, it warns of
                pipeline_model_parallel_size=pp,
                virtual_pipeline_model_parallel_size=vpp,
                num_layers_in_first_pipeline_stage=form.first,
                num_layers_in_last_pipeline_stage=form.last,
                account_for_embedding_in_pipeline_split=form.account_for_embedding,
                account_for_loss_in_pipeline_split=form.account_for_loss,
            )
            chunks = [None] if vpp is None else range(vpp)
            return [get_num_layers_to_build(config, chunk, rank) for chunk in chunks for rank in range(pp)]
        except (AssertionError, ValueError):
            return None

    return ask


counts = st.none() | st.integers(0, 8)


@st.composite
def settings(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Settings:
    """Settings of which about half fit. Megatron-LM divides by the number of layers, so there is one at least."""
    pp = draw(st.integers(1, 6))
    vpp = draw(st.none() | st.integers(1, 3)) if pp > 1 else None
    form = draw(st.builds(FirstLast, counts, counts) | st.builds(FirstLast, st.none(), st.none(), st.booleans(), st.booleans()))
    ends = [count for count in (form.first, form.last) if count is not None]
    fitting = sum(ends) + (pp - len(ends)) * draw(st.integers(0, 4)) * (vpp or 1) - form.account_for_embedding - form.account_for_loss
    return form, pp, vpp, draw(st.just(max(1, fitting)) | st.integers(1, 30))


@given(settings())
def test_megatron_builds_the_same_stages(build: Callable[..., list[int] | None], case: Settings) -> None:
    form, pp, vpp, num_layers = case
    theirs = build(form, pp, vpp, num_layers)
    found = stages(form, Options(pp=pp, vpp=vpp, num_layers=num_layers, target="megatron"))
    ours = None if found is None else [stage.count("t") for stage in found]
    if theirs is not None and (sum(theirs) != num_layers or min(theirs) < 0 or (pp == 1 and form.first not in {None, theirs[0]})):
        theirs = None  # it drops layers, or would build a negative number of them, or does not look at the first count
    assert ours == theirs


@pytest.mark.parametrize(
    ("form", "pp", "num_layers", "theirs"),
    [
        (FirstLast(3, 4), 1, 12, [4]),  # drops eight
        (FirstLast(2, 1), 1, 1, [1]),
        (FirstLast(3, 3), 3, 4, [3, -2, 3]),
    ],
)
def test_megatron_lets_pass_what_is_refused_here(
    build: Callable[..., list[int] | None], form: FirstLast, pp: int, num_layers: int, theirs: Sequence[int]
) -> None:
    assert build(form, pp, None, num_layers) == theirs
    assert [fault.code for fault in lower(form, Options(pp=pp, num_layers=num_layers)).diagnostics] == ["PP207"]


@pytest.fixture(scope="module")
def layout_class() -> Callable[..., Any]:
    if sys.version_info < (3, 11):
        pytest.skip("megatron-core needs Python 3.11")
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- it takes seconds to load

    return PipelineParallelLayerLayout


names = st.sampled_from(["embedding", "decoder", "mtp", "loss", "DECODER", " Loss\n", "\u2003decoder", "decodr", "E", ""])


@given(st.lists(st.lists(names, max_size=4), min_size=1))
def test_megatron_reads_the_same_names(layout_class: Callable[..., Any], rows: list[list[str]]) -> None:
    assume(any(rows))
    ours = stages(LayerLists(tuple(map(tuple, rows))), Options())
    try:
        theirs = layout_class(rows, 1).layout[0]
    except AssertionError:
        assert ours is None
        return
    symbols = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    assert ours == ["".join(symbols[layer.name] for layer in stage) for stage in theirs]
