./build/gpt2 \
  --device cuda \
  --nthread_per_process 8 \
  --pipeline_parallel 4 \
  --virtual_pipeline_parallel 1 \
  --pipeline_layer_partition 4,8,6,6 \
  --batch_size 4
./build/gpt2 --pipeline_parallel=2 --pipeline_chunk_layout=0:3,1:3,1:3,0:3
