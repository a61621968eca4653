from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch and transformers are among the tests' requirements
pytest.importorskip("transformers")

from ppdsl import Chunk  # noqa: E402 -- what needs torch comes behind
from ppdsl_runtime.chunks.seeding import Dropout  # noqa: E402
from ppdsl_runtime.models import (  # noqa: E402
    ChunkBuilder,
    build_reference,
    named_global_parameters,
    one_stage_plan,
    read_shape,
    run_chunks,
    tied_parameters,
)
from tests.runtime.model_cases import build_chunks, collect_grads, compute_loss, make_batch, plan_for, present  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

    from ppdsl_runtime.models.modules import Payload

LAYOUTS = ["Et*4NL", "Et|t*3L", "E|t*4|NL", "Et||tt|tNL", "Et@0|t@1|t@1|tL@0", "E|t|t|t|t|L"]
MTP_LAYOUTS = ["Et*4mmL", "Et|t*3mmL", "Et|t*3N|mm|L", "E|t*4|mm|L", "Ett@0|ttmm@1|@0|L@0"]
MODELS = ["gpt2-tiny", "gpt2-tiny,tied=true", "llama-tiny", "llama-tiny,tied=true"]
CASES = [(model, layout) for model in MODELS for layout in LAYOUTS] + [
    (f"{model},mtp_layers=2", layout) for model in MODELS for layout in MTP_LAYOUTS
]


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_every_layout_starts_equal_and_computes_the_same(model: str, layout: str) -> None:
    chunks = build_chunks(model, layout)
    reference = build_reference(ChunkBuilder(read_shape(model), seed=3))
    wanted = dict(reference.named_parameters())
    named = named_global_parameters(chunks)
    assert set(named) == set(wanted)
    assert all(torch.equal(named[name], wanted[name]) for name in wanted)
    for chunk in present(chunks):
        for name, parameter in chunk.named_parameters():
            assert torch.equal(parameter, wanted[chunk.global_name(name)])
    assert compute_loss(chunks) == pytest.approx(compute_loss([reference]), abs=1e-6)
    grads, wanted_grads = collect_grads(chunks), collect_grads([reference])
    assert set(grads) == set(wanted_grads)
    for name, grad in wanted_grads.items():
        torch.testing.assert_close(grads[name], grad, atol=1e-6, rtol=0, msg=lambda text, name=name: f"{name}: {text}")


def test_names_do_not_depend_on_the_layout() -> None:
    last = present(build_chunks("gpt2-tiny", "Et||tt|tNL"))[-1]
    names = [name for name, _ in last.named_parameters()]
    assert names[:3] == ["transformer.h.3.ln_1.weight", "transformer.h.3.ln_1.bias", "transformer.h.3.attn.c_attn.weight"]
    assert names[-3:] == ["transformer.ln_f.weight", "transformer.ln_f.bias", "lm_head.weight"]
    second = present(build_chunks("llama-tiny", "Et|t*3L"))[1]
    assert next(name for name, _ in second.named_parameters()) == "model.layers.1.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("model", "count"),
    [("gpt2-124m", 148), ("gpt2-124m,tied=false", 149), ("gpt2-small", 101), ("llama3-8b", 32 * 9 + 3)],
)
def test_models_have_as_many_parameters_as_they_should(model: str, count: int) -> None:
    """Counted without their memory."""

    class Nothing:
        def check(self, shape: object) -> None:
            del shape

        def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
            del name
            value: Tensor = torch.empty(shape, device="meta")
            return value

    builder = ChunkBuilder(read_shape(model), Nothing(), device="meta")
    assert len(named_global_parameters([build_reference(builder)])) == count


def test_a_chunk_that_holds_nothing_is_none() -> None:
    assert [chunk is None for chunk in build_chunks("gpt2-tiny", "Et||tt|tNL")] == [False, True, False, False]


def test_only_chunks_with_mtp_layers_take_tokens() -> None:
    chunks = build_chunks("llama-tiny,mtp_layers=2", "Et|t*3N|mm|L")
    names = [[*inspect.signature(chunk.forward).parameters] for chunk in present(chunks)]
    assert names == [["payload"], ["payload"], ["payload", "tokens"], ["payload"]]


def test_an_mtp_chunk_sends_one_more_hidden_state_for_each_layer() -> None:
    chunks = build_chunks("llama-tiny,mtp_layers=2", "Et|t*3N|mm|L")
    tokens, _ = make_batch()
    sent = run_chunks(chunks[:3], tokens)
    assert [tuple(each.shape) for each in sent] == [(2, 9, 32)] * 3
    logits = run_chunks(chunks, tokens)
    assert [tuple(each.shape) for each in logits] == [(2, 9, 256)] * 3


def test_chunks_of_one_rank_share_a_tied_parameter() -> None:
    first, *_, last = present(build_chunks("gpt2-tiny,tied=true", "Et@0|t@1|t@1|tL@0"))
    assert first.trunk["wte"].weight is last.lm_head.weight
    assert [*named_global_parameters([last], primary_only=True)] == [name for name, _ in last.named_parameters()][:-1]
    first, last = present(build_chunks("gpt2-tiny,tied=true", "Ett|ttL"))
    assert first.trunk["wte"].weight is not last.lm_head.weight
    assert torch.equal(first.trunk["wte"].weight, last.lm_head.weight)


@pytest.mark.parametrize(
    ("model", "layout", "local"),
    [
        ("gpt2-tiny", "Ett|ttL", [{}, {}]),
        ("gpt2-tiny,tied=true", "Ett|ttL", [{"transformer.wte.weight"}, {"lm_head.weight"}]),
        ("llama-tiny,mtp_layers=1", "Ett|ttmL", [{"model.embed_tokens.weight"}] * 2),
        ("llama-tiny,tied=true", "Et*4L", [{"model.embed_tokens.weight", "lm_head.weight"}]),
    ],
)
def test_copies_of_tied_weights_are_known(model: str, layout: str, local: list[set[str]]) -> None:
    chunks = present(build_chunks(model, layout))
    for chunk, names in zip(chunks, local, strict=True):
        parameters = dict(chunk.named_parameters(remove_duplicate=False))
        assert set(chunk.tied_names) == set(names)
        assert {id(each) for each in tied_parameters([chunk]).values()} == {id(parameters[name]) for name in names}
        assert len(tied_parameters([chunk])) == bool(names)
    everywhere = [name for chunk in chunks for name in named_global_parameters([chunk], primary_only=True)]
    assert sorted(everywhere) == sorted(set(everywhere))
    assert set(everywhere) == set(named_global_parameters(chunks))


def test_no_generator_of_torch_is_touched() -> None:
    before = torch.get_rng_state()
    build_chunks("gpt2-tiny", "Et|t*3L")
    build_chunks("llama-tiny,mtp_layers=1", "Et|t*3mL")
    assert torch.equal(torch.get_rng_state(), before)


def test_another_seed_gives_other_weights() -> None:
    shape = read_shape("gpt2-tiny")
    first, second = (dict(build_reference(ChunkBuilder(shape, seed=seed)).named_parameters()) for seed in (0, 1))
    for name in first:
        assert torch.equal(first[name], second[name]) == (first[name].dim() == 1)
    assert first["transformer.wte.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert first["transformer.h.1.attn.c_proj.weight"].std().item() == pytest.approx(0.02 / 8**0.5, rel=0.05)
    assert not torch.equal(first["transformer.h.0.attn.c_attn.weight"], first["transformer.h.1.attn.c_attn.weight"])


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama-tiny,mtp_layers=2"])
def test_half_precision_starts_from_the_same_weights(model: str) -> None:
    layout = "Et|t*3mmL" if "mtp" in model else "Et|t*3L"
    full, half = build_chunks(model, layout), build_chunks(model, layout, dtype=torch.bfloat16)
    named, wanted = named_global_parameters(half), named_global_parameters(full)
    assert all(torch.equal(named[name], wanted[name].bfloat16()) for name in wanted)
    assert compute_loss(half) == pytest.approx(compute_loss(full), abs=0.05)


def test_the_embedding_does_not_look_ahead() -> None:
    chunks = build_chunks("llama-tiny,mtp_layers=2", "Et|t*3mmL")
    tokens, _ = make_batch()
    changed = tokens.clone()
    changed[:, 6:] = 7
    for ahead, (before, after) in enumerate(zip(run_chunks(chunks, tokens), run_chunks(chunks, changed), strict=True)):
        assert torch.equal(before[:, : 6 - ahead], after[:, : 6 - ahead])
        assert not torch.allclose(before[:, 6 - ahead], after[:, 6 - ahead])


def test_dropout_agrees_between_layouts() -> None:
    def run(layout: str, place: tuple[int, int]) -> Payload:
        chunks = build_chunks("gpt2-tiny,dropout=0.2", layout)
        with Dropout(5, torch.device("cpu")).microbatch(*place):
            return run_chunks(chunks, make_batch()[0])

    one, other = run("Et*4L", (0, 0)), run("Et|t|tt|L", (0, 0))
    torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
    assert not torch.allclose(one, run("Et*4L", (0, 1)), atol=1e-3)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (torch.zeros(1, 129, dtype=torch.int64), r"^a sequence has 129 tokens, the model has 128 positions$"),
        (torch.zeros(3, dtype=torch.int64), r"^tokens are torch.int64 of shape \[3\], not integers of shape \[batch, seq\]$"),
        (torch.zeros(2, 3), r"^tokens are torch.float32 of shape \[2, 3\], not integers of shape \[batch, seq\]$"),
    ],
)
def test_tokens_of_another_form_are_refused(tokens: Tensor, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run_chunks(build_chunks("gpt2-tiny", "Et*4L"), tokens)


def test_more_inputs_than_tokens_are_refused() -> None:
    (chunk,) = present(build_chunks("gpt2-tiny", "Et*4L"))
    tokens, _ = make_batch()
    with pytest.raises(ValueError, match=r"^the model takes tokens alone, and was given 2 inputs$"):
        chunk(tokens, torch.ones_like(tokens))


@pytest.mark.parametrize("model", ["gpt2-tiny,tied=true", "llama-tiny,mtp_layers=1"])
def test_the_reference_shares_no_parameter_with_chunks_of_the_same_builder(model: str) -> None:
    builder = ChunkBuilder(read_shape(model), seed=3)
    chunks = present([builder(chunk) for chunk in plan_for("Et@0|ttt@1|NmL@0" if "mtp" in model else "Et@0|ttt@1|NL@0").chunks])
    reference = dict(build_reference(builder).named_parameters())
    for name, parameter in named_global_parameters(chunks).items():
        assert torch.equal(parameter, reference[name])
        assert parameter.data_ptr() != reference[name].data_ptr()


def test_layers_that_the_model_has_not_are_refused() -> None:
    builder = ChunkBuilder(read_shape("gpt2-tiny"))
    with pytest.raises(ValueError, match=r"^stage 1 holds decoder layers 2 to 5, the model has 4$"):
        builder(Chunk(1, 1, 0, (2, 6), (0, 0), embedding=False, final_norm=False, loss=False))
    with pytest.raises(ValueError, match=r"^stage 1 holds mtp layers 0 to 0, the model has 0$"):
        builder(Chunk(1, 1, 0, (2, 4), (0, 1), embedding=False, final_norm=False, loss=False))


def test_a_module_of_somebody_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^a chunk is a Linear, which no ChunkBuilder built$"):
        named_global_parameters([None, torch.nn.Linear(1, 1)])


@pytest.mark.parametrize(
    ("model", "layout"), [("gpt2-tiny", "Et*4NL"), ("llama-tiny,mtp_layers=3", "Et*4Nm*3L"), ("gpt2-tiny,layers=1", "EtNL")]
)
def test_the_reference_is_one_stage(model: str, layout: str) -> None:
    assert one_stage_plan(read_shape(model)).layout == layout
