"""GPT-2 and LLaMA, made of the blocks of the library transformers and cut into chunks by a plan."""

from __future__ import annotations

from ppdsl_runtime.losses import count_targets
from ppdsl_runtime.models.building import ChunkBuilder, named_global_parameters, tied_parameters
from ppdsl_runtime.models.losses import LanguageModelLoss
from ppdsl_runtime.models.modules import ModelChunk
from ppdsl_runtime.models.presets import PRESETS, read_shape
from ppdsl_runtime.models.reference import build_reference, one_stage_plan, run_chunks
from ppdsl_runtime.models.shapes import ModelShape, RopeScaling, check_plan
from ppdsl_runtime.models.weight_files import open_weights
from ppdsl_runtime.models.weights import WeightsError, WeightSource

__all__ = [
    "PRESETS",
    "ChunkBuilder",
    "LanguageModelLoss",
    "ModelChunk",
    "ModelShape",
    "RopeScaling",
    "WeightSource",
    "WeightsError",
    "build_reference",
    "check_plan",
    "count_targets",
    "named_global_parameters",
    "one_stage_plan",
    "open_weights",
    "read_shape",
    "run_chunks",
    "tied_parameters",
]
