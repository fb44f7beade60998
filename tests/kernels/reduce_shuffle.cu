extern "C" __global__ void reduce_shuffle(const float* a, float* sums, int n) {
  __shared__ float part[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = i < n ? a[i] : 0.0f;
  for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffff, v, k);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = lane < blockDim.x / 32 ? part[lane] : 0.0f;
    for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(0xffffffff, v, k);
    if (lane == 0) sums[blockIdx.x] = v;
  }
}
