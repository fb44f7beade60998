extern "C" __global__ void reduce_atomic(const int* a, unsigned long long* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? a[i] : 0;
  v = __reduce_add_sync(0xffffffff, v);
  if ((threadIdx.x & 31) == 0) atomicAdd(sum, (unsigned long long)v);
}
