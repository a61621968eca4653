#!/usr/bin/env bash
set -euo pipefail

MODEL_SIZE=${1:?which model}

case "$MODEL_SIZE" in
    8b)
        NUM_LAYERS=32
        PP=4
        LAYOUT="Et*7|(t*8|)*2t*9L"
        ;;
    70b|72b)
        NUM_LAYERS=80
        PP=8
        LAYOUT="Et*9|(t*10|)*6t*11,L"
        ;;
    *)
        echo "unknown model: $MODEL_SIZE" >&2
        exit 1
        ;;
esac

MBS=1
if [ "${LONG_CONTEXT:-0}" -eq 1 ]; then
    GBS=128
else
    GBS=512
fi

options=" --num-layers ${NUM_LAYERS} \
    --pipeline-model-parallel-size ${PP} \
    --micro-batch-size ${MBS} \
    --global-batch-size ${GBS}"

if [ -n "$LAYOUT" ]; then
    options="${options} --pipeline-model-parallel-layout ${LAYOUT}"
else
    options="${options} --num-layers-per-virtual-pipeline-stage 2"
fi

if [ "${DO_OVERLAP:-true}" = false ]; then
    options="${options} --no-overlap-p2p-communication"
fi

run_cmd="torchrun --nproc_per_node 8 pretrain.py ${options}"
echo ${run_cmd}
${run_cmd}
