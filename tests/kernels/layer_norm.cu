extern "C" __global__ void layer_norm(const float* a, float* b, int columns, float eps) {
  int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  float s = 0, q = 0;
  for (int i = lane; i < columns; i += 32) {
    float v = a[row * columns + i];
    s += v;
    q += v * v;
  }
  for (int k = 16; k; k >>= 1) {
    s += __shfl_xor_sync(0xffffffff, s, k);
    q += __shfl_xor_sync(0xffffffff, q, k);
  }
  float mean = s / columns, scale = rsqrtf(q / columns - mean * mean + eps);
  for (int i = lane; i < columns; i += 32) b[row * columns + i] = (a[row * columns + i] - mean) * scale;
}
