from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch and transformers are among the tests' requirements
transformers = pytest.importorskip("transformers")

from ppdsl import compile_layout  # noqa: E402 -- what needs torch comes behind
from ppdsl_runtime.models import ChunkBuilder, LanguageModelLoss, build_reference, read_shape, run_chunks  # noqa: E402
from ppdsl_runtime.models.gpt2 import make_gpt2_config  # noqa: E402
from ppdsl_runtime.models.llama import make_llama_config  # noqa: E402
from tests.runtime.model_cases import collect_grads  # noqa: E402

if TYPE_CHECKING:
    from ppdsl_runtime.models import ModelShape

LAYOUTS = ["Et*4NL", "Et||tt|tNL"]
SCALED = '{"family":"llama","layers":4,"hidden":32,"heads":4,"kv_heads":2,"vocab":256,"max_positions":16384,"rope_scaling":{}}'
MODELS = ["gpt2-tiny", "gpt2-tiny,tied=true", "llama-tiny", "llama-tiny,tied=true,kv_heads=1,rope_theta=500000.0", SCALED]


def build_peer(shape: ModelShape) -> Any:  # noqa: ANN401 -- the library's own classes have no types
    """Build the library's own model, with the weights of ours."""
    if shape.family == "gpt2":
        peer = transformers.GPT2LMHeadModel(make_gpt2_config(shape))
    else:
        peer = transformers.LlamaForCausalLM(make_llama_config(shape))
    wanted = dict(build_reference(ChunkBuilder(shape, seed=2)).named_parameters())
    parameters = dict(peer.named_parameters())
    assert set(parameters) == set(wanted)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(wanted[name])
    return peer.train()


@pytest.mark.parametrize("seq", [1, 2, 17])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", MODELS, ids=["gpt2", "gpt2-tied", "llama", "llama-tied", "llama-scaled"])
def test_loss_and_gradients_are_those_of_the_librarys_own_model(model: str, layout: str, seq: int) -> None:
    shape = read_shape(model)
    peer = build_peer(shape)
    builder = ChunkBuilder(shape, seed=2)
    owners = range(layout.count("|") + 1)  # a rank each, so that none shares a parameter
    chunks = [builder(chunk._replace(pp_rank=rank)) for rank, chunk in zip(owners, compile_layout(layout, pp=1).chunks, strict=True)]
    tokens, target = torch.randint(0, shape.vocab, (2, 3, seq), generator=torch.Generator().manual_seed(seq)).unbind()
    output = run_chunks(chunks, tokens)
    logits = peer(input_ids=tokens).logits
    torch.testing.assert_close(output, logits, atol=1e-6, rtol=0)
    total, count = LanguageModelLoss()(output, target)
    torch.autograd.backward(total / count)
    wanted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
    wanted.backward()
    assert (total / count).item() == pytest.approx(wanted.item(), abs=1e-6)
    grads = collect_grads(chunks)
    named = dict(peer.named_parameters())
    assert set(grads) == set(named)
    for name, parameter in named.items():
        torch.testing.assert_close(grads[name], parameter.grad, atol=1e-6, rtol=0)


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama-tiny"])
def test_bf16_is_that_of_the_librarys_own_model(model: str) -> None:
    shape = read_shape(model)
    peer = build_peer(shape).to(torch.bfloat16)
    if shape.family == "llama":  # the library's loading keeps the frequencies in fp32; casting a module does not
        peer.model.rotary_emb = type(peer.model.rotary_emb)(config=peer.config)
    chunk = build_reference(ChunkBuilder(shape, seed=2, dtype=torch.bfloat16))
    tokens = torch.randint(0, shape.vocab, (2, 100), generator=torch.Generator().manual_seed(0))
    output = run_chunks([chunk], tokens)
    assert isinstance(output, torch.Tensor)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, peer(input_ids=tokens).logits.bfloat16(), atol=0, rtol=0)


def test_lengths_may_change_and_evaluation_may_come_between() -> None:
    shape = read_shape("llama-tiny")
    chunk, peer = build_reference(ChunkBuilder(shape, seed=2)), build_peer(shape)
    for seq in (5, 9, 5, *range(20, 40), 9):
        tokens = torch.randint(0, shape.vocab, (1, seq), generator=torch.Generator().manual_seed(seq))
        with torch.inference_mode():
            torch.testing.assert_close(run_chunks([chunk], tokens), peer(input_ids=tokens).logits, atol=1e-6, rtol=0)
        output = run_chunks([chunk], tokens)
        assert isinstance(output, torch.Tensor)
        output.sum().backward()
        torch.testing.assert_close(output, peer(input_ids=tokens).logits, atol=1e-6, rtol=0)


def test_dropout_is_off_unless_asked_for() -> None:
    tokens = torch.arange(6)[None]
    for model in ("gpt2-tiny", "llama-tiny"):
        off, on = (build_reference(ChunkBuilder(read_shape(f"{model},dropout={rate}"))) for rate in (0.0, 0.5))
        assert torch.equal(off(tokens), off(tokens))
        assert not torch.equal(on(tokens), on(tokens))
        assert torch.equal(on.eval()(tokens), off(tokens))
