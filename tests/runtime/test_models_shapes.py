from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("transformers")  # the runtime is tested where torch and transformers are among the tests' requirements

from ppdsl import compile_layout
from ppdsl_runtime.models import PRESETS, ModelShape, RopeScaling, check_plan, read_shape

TINY = {"family": "llama", "layers": 4, "hidden": 32, "heads": 4, "vocab": 256}


def test_presets_have_the_published_sizes() -> None:
    small, large = PRESETS["gpt2-124m"], PRESETS["llama3-8b"]
    assert (small.layers, small.hidden, small.heads, small.vocab, small.max_positions, small.ffn_size) == (12, 768, 12, 50257, 1024, 3072)
    assert (large.layers, large.hidden, large.heads, large.kv_head_count, large.ffn_size, large.vocab) == (32, 4096, 32, 8, 14336, 128256)
    assert (PRESETS["gpt2-small"].layers, PRESETS["gpt2-small"].hidden, PRESETS["gpt2-small"].vocab) == (8, 384, 1024)


@pytest.mark.parametrize("shape", PRESETS.values(), ids=PRESETS)
def test_json_reads_back_equal(shape: ModelShape) -> None:
    assert ModelShape.from_json(json.dumps(shape.to_json())) == shape
    assert read_shape(json.dumps(shape.to_json())) == shape


def test_a_preset_is_changed_on_the_command_line() -> None:
    assert read_shape("llama-tiny") == PRESETS["llama-tiny"]
    changed = read_shape("llama-tiny, layers=6, tied=True, ffn=null, dropout=0.5")
    assert (changed.layers, changed.tied, changed.ffn, changed.ffn_size, changed.dropout) == (6, True, None, 128, 0.5)
    assert changed.kv_heads == PRESETS["llama-tiny"].kv_heads


def test_what_has_a_default_may_be_left_out() -> None:
    shape = ModelShape.from_json({**TINY, "rope_scaling": {"factor": 32.0}})
    assert (shape.kv_head_count, shape.ffn_size, shape.mtp_layers, shape.tied) == (4, 128, 0, False)
    assert shape.rope_scaling == RopeScaling(factor=32.0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"family": "bert"}, "family is 'bert', not one of gpt2, llama"),
        ({"layers": -1}, "layers is -1, not an integer from 0"),
        ({"layers": True}, "layers is True, not an integer from 0"),
        ({"hidden": 1.5}, "hidden is 1.5, not an integer from 1"),
        ({"vocab": 0}, "vocab is 0, not an integer from 1"),
        ({"ffn": 0}, "ffn is 0, not an integer from 1"),
        ({"hidden": 30}, "hidden is 30, which is not a multiple of heads = 4"),
        ({"kv_heads": 3}, "heads is 4, which is not a multiple of kv_heads = 3"),
        ({"family": "gpt2", "kv_heads": 2}, "kv_heads is 2, but gpt2 has one for each of its 4 heads"),
        ({"family": "gpt2", "rope_scaling": RopeScaling()}, "rope_scaling is given, but gpt2 has no rotary embedding"),
        ({"hidden": 12}, "hidden / heads is 3, but a rotary embedding needs an even size"),
        ({"tied": 1}, "tied is 1, not true or false"),
        ({"dropout": 1.0}, "dropout is 1.0, not a number from 0 to below 1"),
        ({"dropout": "0"}, "dropout is '0', not a number"),
        ({"norm_eps": float("inf")}, "norm_eps is inf, not a finite number above 0"),
        ({"rope_theta": 0}, "rope_theta is 0, not a finite number above 0"),
        ({"layers": 0, "mtp_layers": 1}, "mtp_layers is 1, which needs decoder layers before them"),
        ({"rope_scaling": {"factor": 0}}, "rope_scaling.factor is 0, not a finite number above 0"),
        (
            {"rope_scaling": {"high_freq_factor": 1.0}},
            "rope_scaling.high_freq_factor is 1.0, not above low_freq_factor = 1.0",
        ),
        ({"rope_scaling": 8}, "rope_scaling is 8, not an object"),
        ({"depth": 4}, "'depth' is an unknown field of the model; there are family, layers, "),
    ],
)
def test_a_size_out_of_range_is_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        ModelShape.from_json({**TINY, **changes})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("gpt5", "there is no model 'gpt5'; there are gpt2-124m, "),
        ("gpt2-tiny,layers", "'layers' is not of the form field=value, with one of family, layers, "),
        ("gpt2-tiny,depth=3", "'depth=3' is not of the form field=value"),
        ("gpt2-tiny,layers=x", "layers is 'x', not a number, true, false or null"),
        ("{", "the model is no JSON: "),
        ('{"family": "gpt2"}', "the model lacks layers, hidden, heads, vocab"),
    ],
)
def test_what_cannot_be_read_is_refused(given: str, text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        read_shape(given)


def test_a_layout_of_another_model_is_refused() -> None:
    shape = read_shape("gpt2-tiny")
    check_plan(compile_layout("Ett|ttL", pp=2), shape)
    with pytest.raises(ValueError, match=r"^the layout 'Ett\|tL' has 3 decoder layers, the model has 4$"):
        check_plan(compile_layout("Ett|tL", pp=2), shape)
    with pytest.raises(ValueError, match=r"^the layout 'Ett\|ttmL' has 1 mtp layers, the model has 0$"):
        check_plan(compile_layout("Ett|ttmL", pp=2), shape)
