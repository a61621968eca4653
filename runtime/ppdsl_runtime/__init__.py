"""The executor: will run on torch, rank by rank, the programs that ``ppdsl`` compiles from a layout. It is not there yet."""
