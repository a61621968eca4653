#! /bin/bash

CHECKPOINT_PATH=$1
TENSORBOARD_DIR=$2

GPT_ARGS="
    --num-layers 24 \
    --hidden-size 1024 \
    --num-attention-heads 16 \
    --micro-batch-size 4 \
    --global-batch-size 64
"

PARALLEL_ARGS="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4"
PARALLEL_ARGS="$PARALLEL_ARGS --pipeline-model-parallel-layout Et*5|t*7|t*7|t*5L"

OUTPUT_ARGS="
    --log-interval 100 \
    --save $CHECKPOINT_PATH
"

python -m torch.distributed.launch --nproc_per_node 8 \
    pretrain_gpt.py \
    $GPT_ARGS \
    $PARALLEL_ARGS \
    $OUTPUT_ARGS \
    --tensorboard-dir $TENSORBOARD_DIR
