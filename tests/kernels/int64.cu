extern "C" __global__ void int64(const long long* a, const long long* b, long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] / b[i] * 3 + a[i] % b[i] + (a[i] << (b[i] & 31)) - (a[i] >> 5) + __mul64hi(a[i], b[i]);
}
