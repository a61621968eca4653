# Reinforcement learning: the actor has a layout of its own, the reference model has none.
PIPELINE_MODEL_PARALLEL_LAYOUT=${PIPELINE_MODEL_PARALLEL_LAYOUT:-"Et*6|t*6|t*6|t*5|t*5|t*5|t*5|t*5L"}
PP=8

ACTOR=(
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=${PP}
    +actor_rollout_ref.actor.megatron.override_transformer_config.num_layers=43
    "++actor_rollout_ref.actor.megatron.override_transformer_config.pipeline_model_parallel_layout='${PIPELINE_MODEL_PARALLEL_LAYOUT}'"
)
REF=(
    actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=4
    ++actor_rollout_ref.ref.megatron.override_transformer_config.pipeline_model_parallel_layout=null
)

python3 -m verl.trainer.main_ppo \
    "${ACTOR[@]}" \
    "${REF[@]}" \
    trainer.nnodes=4 $@
