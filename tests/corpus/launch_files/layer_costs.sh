# InfiniTrain, balanced by what its layers were measured to cost
COSTS=1.4,1,1,1,1,1,1,1,L:4.5
./build/gpt2 \
  --device cuda \
  --pipeline_parallel 2 \
  --pipeline_layer_costs "$COSTS" \
  --batch_size 4
./build/llama3 --pipeline_parallel=4 --pipeline_layer_costs=1,1,1,1,4,1,1,1
