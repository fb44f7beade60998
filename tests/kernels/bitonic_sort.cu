extern "C" __global__ void bitonic_sort(int* a) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = a[blockIdx.x * 256 + t];
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      int other = t ^ j;
      if (other > t && (s[t] > s[other]) == ((t & k) == 0)) {
        int x = s[t];
        s[t] = s[other];
        s[other] = x;
      }
    }
  __syncthreads();
  a[blockIdx.x * 256 + t] = s[t];
}
