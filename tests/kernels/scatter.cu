extern "C" __global__ void scatter(const int* a, const int* index, int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[index[i]] = a[i];
}
