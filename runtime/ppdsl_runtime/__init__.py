"""The executor: runs on torch, rank by rank, the programs that ``ppdsl`` compiles from a layout.

``ppdsl_runtime.pipeline`` has ``Pipeline`` and ``build``, for a trainer of one's own; ``python -m ppdsl_runtime`` trains GPT-2 and LLaMA.
Nothing is imported here, so that what has to come before torch's threads can.
"""
