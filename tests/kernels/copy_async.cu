#include <cuda_pipeline.h>
extern "C" __global__ void copy_async(const float4* a, float4* b) {
  __shared__ float4 s[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  __pipeline_memcpy_async(&s[threadIdx.x], &a[i], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  b[i] = s[127 - threadIdx.x];
}
