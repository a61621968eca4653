#!/bin/bash
source /usr/local/Ascend/ascend-toolkit/set_env.sh
PP=4

MOE_ARGS="
    --moe-token-dispatcher-type alltoall \
    --moe-grouped-gemm \
    --moe-fb-overlap
"
SCHEDULE_ARGS="--schedules-method dualpipev --recompute-in-advance --noop-layers 0,23"

msrun --worker_num 8 pretrain_gpt.py $MOE_ARGS $SCHEDULE_ARGS \
    --num-layers 24 \
    --pipeline-model-parallel-size ${PP} \
    --expert-model-parallel-size 2 --expert-tensor-parallel-size 1 \
    --pipeline-model-parallel-layout "Ettt|(ttt|)*6tttL" \
    | tee logs/train.log
