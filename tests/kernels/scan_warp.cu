extern "C" __global__ void scan_warp(const float* a, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  float v = a[i];
  for (int k = 1; k < 32; k *= 2) {
    float u = __shfl_up_sync(0xffffffff, v, k);
    if (lane >= k) v += u;
  }
  out[i] = v;
}
