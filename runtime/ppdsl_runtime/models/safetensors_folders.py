"""Weights from a folder that the library transformers saved: only what is asked for is read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from safetensors import SafetensorError, safe_open

from ppdsl_runtime.models.shapes import ModelShape, RopeScaling
from ppdsl_runtime.models.weights import check_sizes
from ppdsl_runtime.reading import load_json, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from torch import Tensor

Result = TypeVar("Result")

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_TRUNKS = ("transformer.", "model.")
_SIZES = (
    "layers",
    "hidden",
    "heads",
    "kv_head_count",
    "ffn_size",
    "vocab",
    "max_positions",
    "tied",
    "norm_eps",
    "rope_theta",
    "rope_scaling",
)
_ONLY = {
    "gpt2": {
        "activation_function": "gelu_new",
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "quantization_config": None,
    },
    "llama": {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "quantization_config": None},
}
"""Settings that change what a model computes, and the values of them that ours computes."""


class SafetensorsFolder:
    """Weights of a folder with config.json and safetensors, in one file or in several with an index.

    Attributes:
        folder: The folder.
        shape: The sizes that its config.json gives; MTP layers and dropout are none.
    """

    def __init__(self, folder: str | Path) -> None:
        """Read config.json and the names of the weights.

        Raises:
            ValueError: A file is missing or damaged, or the model is of another kind.
        """
        self.folder = Path(folder)
        self.shape = read_folder_shape(self.folder)
        self._files = self._find()

    def check(self, shape: ModelShape) -> None:
        """Check that this is a model with these sizes.

        Raises:
            ValueError: It is not.
        """
        sizes: dict[str, object] = {name: getattr(self.shape, name) for name in ("family", *_SIZES)}
        check_sizes(str(self.folder), sizes, shape)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:  # noqa: ARG002 -- its own shape is compared by the builder
        """Read one weight.

        Raises:
            ValueError: There is none of this name, or its file is damaged.
        """
        short = next((name[len(trunk) :] for trunk in _TRUNKS if name.startswith(trunk)), name)  # as in a model without its head
        found = next((each for each in (name, short) if each in self._files), None)
        if found is None:
            raise ValueError(f"{self.folder} has no weight {name}")
        return self._open(self._files[found], lambda tensors: cast("Tensor", tensors.get_tensor(found)))

    def _find(self) -> dict[str, str]:
        """Find the file of each weight."""
        if not (self.folder / _INDEX).exists():
            return dict.fromkeys(self._open(_SINGLE, lambda tensors: [*tensors.keys()]), _SINGLE)
        places = _read_json(self.folder / _INDEX).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(file, str) and Path(file).name == file for file in places.values()):
            raise ValueError(f"{self.folder / _INDEX} has no weight_map of file names")
        return places

    def _open(self, file: str, use: Callable[[Any], Result]) -> Result:
        path = self.folder / file
        try:
            with ExitStack() as stack:
                return use(stack.enter_context(safe_open(path, framework="pt", device="cpu")))
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{path} cannot be read: {reason_of(error)}") from error


def read_folder_shape(folder: str | Path) -> ModelShape:
    """Read the sizes of a model from the config.json of its folder.

    Raises:
        ValueError: The file is missing or damaged, or the model is of another kind than GPT-2 or LLaMA, or changes what they compute.
    """
    path = Path(folder) / "config.json"
    config = _read_json(path)
    family = config.get("model_type")
    if family not in _ONLY:
        raise ValueError(f"{path} has model_type = {family!a}, not one of {', '.join(_ONLY)}")
    for name, wanted in _ONLY[family].items():
        if config.get(name, wanted) != wanted:
            raise ValueError(f"{path} has {name} = {config[name]!a}, only {wanted!a} is supported")
    try:
        return _read_gpt2(config) if family == "gpt2" else _read_llama(config)
    except KeyError as error:
        raise ValueError(f"{path} lacks {error.args[0]}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_gpt2(config: Mapping[str, Any]) -> ModelShape:
    return ModelShape(
        "gpt2",
        layers=config["n_layer"],
        hidden=config["n_embd"],
        heads=config["n_head"],
        vocab=config["vocab_size"],
        max_positions=config["n_positions"],
        ffn=config.get("n_inner"),
        tied=config.get("tie_word_embeddings", True),
        norm_eps=config.get("layer_norm_epsilon", 1e-5),
    )


def _read_llama(config: Mapping[str, Any]) -> ModelShape:
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    heads = config["num_attention_heads"]
    size = config.get("head_dim")
    if size is not None and size * heads != config["hidden_size"]:
        raise ValueError(f"head_dim is {size}, only hidden_size / num_attention_heads is supported")
    return ModelShape(
        "llama",
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=heads,
        vocab=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        kv_heads=config.get("num_key_value_heads"),
        ffn=config["intermediate_size"],
        tied=config.get("tie_word_embeddings", False),
        norm_eps=config.get("rms_norm_eps", 1e-6),
        rope_theta=rope.get("rope_theta") or config.get("rope_theta", 10_000.0),
        rope_scaling=_read_scaling(rope),
    )


def _read_scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise ValueError(f"rope_type is {kind!a}, only default and llama3 are supported")
    return RopeScaling(rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"])


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        data = load_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path} is no JSON object")  # noqa: TRY004 -- the file is at fault, not the call
    return data
