#!/bin/bash
LAYERS=12
cat > config.yaml <<EOF
model:
  num_layers: ${LAYERS}
  pipeline_model_parallel_size: 2
  pipeline_model_parallel_layout: "Et*6|t*6L"
EOF

sbatch <<'EOT'
#!/bin/bash
PP=4
srun python train.py --num-layers 8 \
    --pipeline-model-parallel-size $PP --pipeline-model-parallel-layout "Ett|tt|tt|ttL"
EOT

usage() {
    cat <<EOF
usage: run.sh [--pipeline-model-parallel-layout LAYOUT] [--num-layers N]
EOF
}
