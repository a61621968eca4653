from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch and transformers are among the tests' requirements
pytest.importorskip("transformers")

from ppdsl_runtime.models import ChunkBuilder, LanguageModelLoss, build_reference, count_targets, read_shape, run_chunks  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor


def draw(seed: int, *shape: int) -> Tensor:
    drawn: Tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return drawn


def compute_naively(logits: Tensor, target: Tensor, places: int) -> float:
    """Sum minus the log-probability of the target so many places further on."""
    chances = logits.double().softmax(-1)
    total = 0.0
    for row, sequence in enumerate(target.tolist()):
        for place in range(len(sequence) - places):
            wanted = sequence[place + places]
            if wanted != -100:
                total -= float(chances[row, place, wanted].log())
    return total


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_the_loss_is_what_it_says(depth: int) -> None:
    target = torch.tensor([[1, 4, -100, 2, 0], [3, -100, -100, 1, 1]])
    logits = tuple(draw(seed, 2, 5, 6) for seed in range(depth + 1))
    total, count = LanguageModelLoss(mtp_factor=0.3)(logits if depth else logits[0], target)
    ahead = sum(compute_naively(each, target, places) for places, each in enumerate(logits[1:], 1))
    assert float(total) == pytest.approx(compute_naively(logits[0], target, 0) + (0.3 / depth * ahead if depth else 0), rel=1e-6)
    assert int(count) == 7 == int(count_targets(target))
    assert (total.dtype, count.dtype) == (torch.float32, torch.int64)


def test_a_sequence_shorter_than_what_is_foreseen_adds_nothing() -> None:
    logits = (draw(0, 1, 1, 6), draw(1, 1, 1, 6))
    target = torch.tensor([[2]])
    assert float(LanguageModelLoss()(logits, target)[0]) == pytest.approx(compute_naively(logits[0], target, 0), rel=1e-6)


def test_it_does_not_depend_on_the_cut_into_microbatches() -> None:
    target = torch.randint(0, 6, (4, 5), generator=torch.Generator().manual_seed(0))
    target[0] = -100
    logits = draw(1, 4, 5, 6), draw(2, 4, 5, 6)
    loss = LanguageModelLoss()
    whole, count = loss(logits, target)
    parts = [loss(tuple(each[rows] for each in logits), target[rows]) for rows in (slice(0, 1), slice(1, 2), slice(2, 4))]
    assert float(sum(part for part, _ in parts) / sum(each for _, each in parts)) == pytest.approx(float(whole / count), rel=1e-6)


def test_half_precision_logits_are_summed_in_fp32() -> None:
    logits, target = draw(0, 4, 64, 512), torch.randint(0, 512, (4, 64), generator=torch.Generator().manual_seed(1))
    half, _ = LanguageModelLoss()(logits.bfloat16(), target)
    assert half.dtype == torch.float32
    assert float(half) == pytest.approx(compute_naively(logits.bfloat16(), target, 0), rel=1e-5)


@pytest.mark.parametrize("model", ["gpt2-tiny", "llama-tiny"])
def test_an_mtp_layer_is_what_deepseek_v3_says(model: str) -> None:
    """Norms, projection of both (embedding first), block, norm, the model's own head; tokens shifted by one more for each depth."""
    chunk: Any = build_reference(ChunkBuilder(read_shape(f"{model},mtp_layers=2,max_positions=16"), seed=1))
    tokens = torch.arange(14).reshape(2, 7) * 9
    trunk = chunk.trunk
    caught: list[Tensor] = []
    trunk["ln_f" if model == "gpt2-tiny" else "norm"].register_forward_hook(lambda *call: caught.append(call[2]))
    logits = run_chunks([chunk], tokens)
    words = trunk["wte" if model == "gpt2-tiny" else "embed_tokens"].weight
    hidden = caught[0]
    for depth, layer in enumerate(chunk.mtp["layers"].values(), 1):
        ahead = torch.stack([words[[*row[depth:], *[0] * depth]] for row in tokens.tolist()])
        joined = torch.cat((layer.enorm(ahead), layer.hnorm(hidden)), -1) @ layer.eh_proj.weight.T
        output = layer.block(joined, **chunk._family.prepare(joined))  # noqa: SLF001 -- the cosines and sines, not under test here
        hidden = layer.final_norm(output[0] if isinstance(output, tuple) else output)
        torch.testing.assert_close(logits[depth], hidden @ chunk.lm_head.weight.T, atol=1e-6, rtol=1e-5)
