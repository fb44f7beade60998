extern "C" __global__ void odd_even_sort(short* a) {
  __shared__ short s[64];
  int t = threadIdx.x;
  s[t] = a[blockIdx.x * 64 + t];
  __syncthreads();
  for (int round = 0; round < 64; round++) {
    if ((t & 1) == (round & 1) && t < 63 && s[t] > s[t + 1]) {
      short x = s[t];
      s[t] = s[t + 1];
      s[t + 1] = x;
    }
    __syncthreads();
  }
  a[blockIdx.x * 64 + t] = s[t];
}
