extern "C" __global__ void strided_read(const float* a, float* b, int n, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[(int)((long long)i * stride % n)];
}
