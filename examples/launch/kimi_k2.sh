#!/usr/bin/env bash
# Pretrain Kimi K2 with Megatron-LM. The layout has two layers less than the model, which a job finds out once it has started.
set -euo pipefail

torchrun --nnodes 32 --nproc-per-node 8 pretrain_gpt.py \
    --num-layers 61 \
    --hidden-size 7168 \
    --num-attention-heads 64 \
    --seq-length 4096 \
    --expert-model-parallel-size 16 \
    --pipeline-model-parallel-size 16 \
    --pipeline-model-parallel-layout 'Et|(tt|)*29|L' \
    --micro-batch-size 1 \
    --global-batch-size 4096
