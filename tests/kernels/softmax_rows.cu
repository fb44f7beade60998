extern "C" __global__ void softmax_rows(const float* a, float* b, int columns) {
  __shared__ float part[8];
  __shared__ float shared_value;
  const float* row = a + (long long)blockIdx.x * columns;
  float m = __int_as_float(0xff800000), s = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, k));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < blockDim.x / 32; k++) m = fmaxf(m, part[k]);
    shared_value = m;
  }
  __syncthreads();
  m = shared_value;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) s += expf(row[i] - m);
  for (int k = 16; k; k >>= 1) s += __shfl_xor_sync(0xffffffff, s, k);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = 0;
  for (int k = 0; k < blockDim.x / 32; k++) s += part[k];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) b[(long long)blockIdx.x * columns + i] = expf(row[i] - m) / s;
}
