"""The inputs of a step, split into microbatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class StepForm(NamedTuple):
    """What all ranks have to know of a step before it begins; stage 0's rank tells it.

    Attributes:
        keys: The key of each microbatch: what the shapes of all edges follow from.
        rows: Rows of each microbatch.
    """

    keys: list[str]
    rows: list[int]


class Batch(NamedTuple):
    """What one rank was given for a step.

    Attributes:
        inputs: The inputs of the first stage.
        target: What the loss compares with; None where it was not given.
        side: Keyword inputs, by name.
    """

    inputs: tuple[torch.Tensor, ...]
    target: Any
    side: Mapping[str, Any]

    def count_rows(self) -> int:
        """Give the rows of the inputs.

        Raises:
            ValueError: There are no inputs, one is no tensor with rows, or two differ in their rows.
        """
        if not self.inputs:
            raise ValueError("stage 0 is on this rank, so the step needs its inputs")
        for place, tensor in enumerate(self.inputs):
            if not _has_rows(tensor):
                raise ValueError(f"input {place} is {_show(tensor)}, not a tensor with rows")
            if len(tensor) != len(self.inputs[0]):
                raise ValueError(f"input {place} has {len(tensor)} rows, input 0 has {len(self.inputs[0])}")
        return len(self.inputs[0])

    def refuse_unknown(self, names: Collection[str]) -> None:
        """Refuse a keyword input that no chunk of any rank takes, such as a mask whose name is misspelt.

        Args:
            names: Those that the chunks take.

        Raises:
            ValueError: There is one.
        """
        for name in self.side:
            if name not in names:
                raise ValueError(f"no chunk takes {name!r}; keyword inputs of the chunks are {', '.join(sorted(names)) or 'none'}")

    def form(self, microbatches: int, mode: str) -> StepForm:
        """Say what the other ranks have to know.

        Args:
            microbatches: How many the batch is split into.
            mode: What else the shapes and types of the edges follow from.

        Raises:
            ValueError: There are fewer rows than microbatches, or the inputs do not fit each other.
        """
        rows = split_rows(self.count_rows(), microbatches)
        tensors = {f"input {place}": tensor for place, tensor in enumerate(self.inputs)}
        tensors |= {name: value for name, value in sorted(self.side.items()) if isinstance(value, torch.Tensor)}
        keys: dict[int, str] = {}
        for count in {*rows}:
            shapes = [f"{name} {tensor.dtype} {(count, *tensor.shape[1:])}" for name, tensor in tensors.items()]
            keys[count] = "; ".join([mode, *shapes, *_show_lists(self.side)])
        return StepForm([keys[count] for count in rows], rows)

    def split_inputs(self, rows: Sequence[int]) -> list[tuple[torch.Tensor, ...]]:
        """Give the inputs of the first stage, by microbatch.

        Raises:
            ValueError: They do not have these rows.
        """
        split = [split_value(f"input {place}", tensor, rows) for place, tensor in enumerate(self.inputs)]
        return [*zip(*split, strict=True)]

    def split_target(self, rows: Sequence[int]) -> list[Any]:
        """Give the target, by microbatch.

        Raises:
            ValueError: It is missing, or does not have these rows.
        """
        if self.target is None:
            raise ValueError("the loss is on this rank, so the step needs its target")
        return split_value("target", self.target, rows)

    def choose_side(self, stage: int, names: Mapping[str, bool], rows: Sequence[int]) -> list[dict[str, Any]]:
        """Give a chunk the keyword inputs that it names, by microbatch.

        Args:
            stage: Its stage, for errors.
            names: The names, each with whether it must be given.
            rows: Rows of each microbatch.

        Raises:
            ValueError: One that must be given is missing, or does not fit the microbatches.
        """
        if not names:
            return [{} for _ in rows]
        given = dict(self.side)
        if self.inputs:
            given.setdefault("tokens", self.inputs[0])
        if self.target is not None:
            given.setdefault("target", self.target)
        for name, needed in names.items():
            if needed and name not in given:
                raise ValueError(f"stage {stage} needs {name!r}, which the step was not given on this rank; it has {sorted(given)}")
        split = {name: split_value(name, given[name], rows) for name in names if name in given}
        return [{name: values[batch] for name, values in split.items()} for batch in range(len(rows))]


def _show_lists(side: Mapping[str, Any]) -> list[str]:
    return [f"{name} by microbatch" for name, value in sorted(side.items()) if isinstance(value, list)]


def split_rows(rows: int, microbatches: int) -> list[int]:
    """Give the rows of each microbatch, as ``torch.tensor_split`` deals them: the first ones have one more where they are uneven.

    Raises:
        ValueError: There are fewer rows than microbatches.
    """
    if rows < microbatches:
        raise ValueError(f"{rows} rows cannot be split into {microbatches} microbatches")
    least, more = divmod(rows, microbatches)
    return [least + (batch < more) for batch in range(microbatches)]


def split_value(name: str, value: Any, rows: Sequence[int]) -> list[Any]:  # noqa: ANN401 -- a tensor, a list, or anything
    """Split an input into microbatches.

    Args:
        name: What it is called, for errors.
        value: A tensor with as many rows as the batch is split by them; a list has one value a microbatch; anything else is for all.
        rows: Rows of each microbatch.

    Raises:
        ValueError: It has other rows than the batch, or another number of values than there are microbatches.
    """
    if _has_rows(value):
        if len(value) != sum(rows):
            raise ValueError(f"{name} has {len(value)} rows, the inputs have {sum(rows)}")
        return [*torch.split(value.detach(), [*rows])]
    if isinstance(value, list):
        if len(value) != len(rows):
            raise ValueError(f"{name} has {len(value)} values, but there are {len(rows)} microbatches")
        return value
    return [value] * len(rows)


def _has_rows(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0


def _show(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
