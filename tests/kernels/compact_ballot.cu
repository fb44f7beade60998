extern "C" __global__ void compact_ballot(const int* a, int* out, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, base = 0;
  bool keep = i < n && a[i] > 0;
  unsigned mask = __ballot_sync(0xffffffff, keep);
  if (lane == 0) base = atomicAdd(count, __popc(mask));
  base = __shfl_sync(0xffffffff, base, 0);
  if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = a[i];
}
