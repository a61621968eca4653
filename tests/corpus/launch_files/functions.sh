#!/bin/bash
launch() {
    local layout="$1"; shift
    torchrun train.py --num-layers "$NUM_LAYERS" --pipeline-model-parallel-size "$PP" \
        --pipeline-model-parallel-layout "$LAYOUT" "$@"
}

NUM_LAYERS=4
PP=2
for LAYOUT in "Ett|ttL" "Et|t*3L"; do
    launch "$LAYOUT" --seed 1
done
