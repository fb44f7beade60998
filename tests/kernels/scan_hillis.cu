extern "C" __global__ void scan_hillis(const int* a, int* out) {
  __shared__ int buffer[2][256];
  int t = threadIdx.x, side = 0;
  buffer[0][t] = a[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 1; k < 256; k *= 2) {
    buffer[1 - side][t] = buffer[side][t] + (t >= k ? buffer[side][t - k] : 0);
    side = 1 - side;
    __syncthreads();
  }
  out[blockIdx.x * 256 + t] = buffer[side][t];
}
