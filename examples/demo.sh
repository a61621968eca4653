#!/usr/bin/env bash
# What ppdsl does, on real layouts, and a training run under one: `make demo` runs this. Each command is printed before it runs.
# 0 is valid and 1 is invalid; any other exit code is a fault of the demo, and ends it.
set -u
cd "$(dirname "$0")" || exit
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

while IFS= read -r line; do
    case $line in
        '') ;;
        '#'*) printf '\n%s\n' "$line" ;;
        *)
            printf '\n$ %s\n' "$line"
            eval "$line" </dev/null
            code=$?
            if ((code == 1)); then echo '(exit code 1)'; elif ((code)); then exit "$code"; fi
            ;;
    esac
done <<'COMMANDS'
# A GPT-2 of 12 layers on two ranks. Each has two chunks; one of the four stages is left empty.
ppdsl check 'Et*3||t*3|t*6NL' --pp 2 --num-layers 12

# The same layout for a model of 13 layers: what is wrong, where, and a layout that is right.
ppdsl check 'Et*3||t*3|t*6NL' --pp 2 --num-layers 13

# All faults at once.
ppdsl check 'Et*3||x*3|t*6Nl' --pp 2

# DeepSeek-V3: 61 decoder layers and an MTP layer on 16 ranks.
ppdsl check 'Et*3|(tt|)*29,m|L' --pp 16 --num-layers 61 --mtp-num-layers 1

# Launch files are read as they are: layout and sizes are found in them, and never run.
ppdsl check --from launch/kimi_k2.sh
ppdsl check --from launch/llama3_70b.yaml

# One canonical form, the same in full, and one that Megatron-LM reads.
ppdsl fmt 'E t,t,t | (t t |)*2, L'
ppdsl fmt 'Et*3|(tt|)*4,L' --expand
ppdsl fmt 'E((t|)*2tt|)*3NL' --target megatron

# A code, and a layout, in words.
ppdsl explain PP302
ppdsl explain 'Et*3||t*3|t*6NL' --pp 2

# What moves when the layout changes.
ppdsl diff 'Et*3||t*3|t*6NL' 'Et*3|t*3|t*3|t*3NL' --pp 2

# What a step takes: scheduled, proved free of deadlock, and simulated.
ppdsl simulate 'Et*3|t*3|t*3|t*3NL' --pp 4 --microbatches 8 --gantt

# The best layout of 30 layers with a heavy head on 4 ranks, and how far from optimal it can be.
ppdsl suggest --num-layers 30 --pp 4 --microbatches 16 --costs costs.json

# The plan that a trainer builds its model from.
ppdsl compile 'Et*3||t*3|t*6NL' --pp 2

# The main job: two processes train a GPT-2 of 12 layers under that layout, on the English text that comes with Python.
torchrun --standalone --local-addr 127.0.0.1 --nproc-per-node 2 -m ppdsl_runtime train 'Et*3||t*3|t*6NL' --model gpt2-tiny,layers=12,hidden=64 --global-batch-size 8 --microbatches 4 --steps 40 --lr 0.002
COMMANDS
