extern "C" __global__ void match_any(const int* a, int* count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  count[i] = __popc(__match_any_sync(0xffffffff, a[i]));
}
