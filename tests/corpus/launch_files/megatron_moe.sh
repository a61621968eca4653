#!/bin/bash
# A mixture-of-experts model with multi-token prediction on 256 devices.

export CUDA_DEVICE_MAX_CONNECTIONS=1
export TP=${TP:-1}
export PP=${PP:-16}
export EP=${EP:-64}
GBS=${GBS:-8192}
PPL=${PPL:-"Et*3|(tt|)*29,m|L"}   # 61 decoder layers, one prediction layer

DISTRIBUTED_ARGS=(
    --nproc_per_node 8
    --nnodes ${NNODES:-32}
    --node_rank $NODE_RANK
    --master_addr "$MASTER_ADDR"
)

MODEL_ARGS=(
    --use-mcore-models
    --num-layers 61
    --hidden-size 7168
    --mtp-num-layers 1
    --untie-embeddings-and-output-weights
)

TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size ${GBS}
    --bf16
)

MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size ${PP}
    --expert-model-parallel-size ${EP}
    #--pipeline-model-parallel-layout "Et|(t|)*59tm|L"
    --pipeline-model-parallel-layout ${PPL}
    --sequence-parallel
)

MOE_ARGS=(
    --moe-grouped-gemm
    --moe-token-dispatcher-type flex
)

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${TRAINING_ARGS[@]}" \
    "${MODEL_PARALLEL_ARGS[@]}" \
    ${MOE_ARGS[@]} 2>&1 | tee "logs/$(date +%F).log"
