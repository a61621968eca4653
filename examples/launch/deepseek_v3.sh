#!/usr/bin/env bash
# Pretrain DeepSeek-V3 with Megatron-LM: 61 decoder layers and one MTP layer over 16 pipeline ranks, two chunks each.
set -euo pipefail

NODES=${NODES:-64}
PP=16
LAYOUT='Et*3|(tt|)*29,m|L'

MODEL_ARGS=(
    --num-layers 61
    --mtp-num-layers 1
    --hidden-size 7168
    --num-attention-heads 128
    --seq-length 4096
    --untie-embeddings-and-output-weights
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 1
    --expert-model-parallel-size 32
    --pipeline-model-parallel-size "$PP"
    --pipeline-model-parallel-layout "$LAYOUT"
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 8192
    --train-iters 500000
    --bf16
)

torchrun --nnodes "$NODES" --nproc-per-node 8 pretrain_gpt.py \
    "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${TRAINING_ARGS[@]}"
