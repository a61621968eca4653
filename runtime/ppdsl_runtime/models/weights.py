"""Where weights come from: the one thing that a builder asks of random weights, and of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from ppdsl_runtime.models.shapes import ModelShape


class WeightsError(ValueError):
    """A weight is not there, cannot be read, or has another shape than the model's."""


class WeightSource(Protocol):
    """Gives a model's weights one by one, so that each rank takes only its own."""

    def check(self, shape: ModelShape) -> None:
        """Check that these are weights of a model with these sizes.

        Raises:
            ValueError: They are not; the text names both sizes.
        """
        ...

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Give one weight, on the CPU, of any floating dtype.

        Args:
            name: Its global name, such as ``transformer.h.5.attn.c_attn.weight``.
            shape: The shape that the model needs; it may be read in another, which the caller refuses.

        Raises:
            ValueError: There is none of this name, or the file is damaged.
        """
        ...


def check_sizes(where: str, real: Mapping[str, object], shape: ModelShape) -> None:
    """Compare the sizes of weights in a file with those of the model that is to have them.

    Args:
        where: The file, as errors name it.
        real: Its sizes: fields or properties of ModelShape.
        shape: The model's sizes.

    Raises:
        ValueError: Two differ.
    """
    for name, value in real.items():
        wanted = getattr(shape, name)
        if wanted != value:
            raise ValueError(f"{where} has {name} = {value}, the model {wanted}")
