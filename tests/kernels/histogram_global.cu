extern "C" __global__ void histogram_global(const unsigned char* a, unsigned int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[a[i]], 1u);
}
