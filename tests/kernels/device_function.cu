__device__ __noinline__ float horner(const float* c, int n, float x) {
  float v = 0;
  for (int k = n - 1; k >= 0; k--) v = v * x + c[k];
  return v;
}
extern "C" __global__ void device_function(const float* a, const float* c, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] > 0 ? horner(c, 6, a[i]) : horner(c + 2, 3, -a[i]);
}
