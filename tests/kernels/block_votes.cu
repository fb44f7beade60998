extern "C" __global__ void block_votes(const int* a, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = a[i];
  int equal = __syncthreads_count(v == 3);
  int some = __syncthreads_or(v == 7), all = __syncthreads_and(v < 9);
  out[i] = equal + 100 * (some != 0) + 1000 * (all != 0);
}
