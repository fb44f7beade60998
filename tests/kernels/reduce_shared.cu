extern "C" __global__ void reduce_shared(const float* a, float* sums, int n) {
  extern __shared__ float part[];
  int t = threadIdx.x;
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) s += a[i];
  part[t] = s;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}
