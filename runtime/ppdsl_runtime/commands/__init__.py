"""The commands of ``python -m ppdsl_runtime``: one file each."""
