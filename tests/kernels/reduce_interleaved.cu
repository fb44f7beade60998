extern "C" __global__ void reduce_interleaved(const int* a, int* sums) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = a[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 1; k < 256; k *= 2) {
    int i = 2 * k * t;
    if (i < 256) part[i] += part[i + k];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}
