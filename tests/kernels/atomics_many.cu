extern "C" __global__ void atomics_many(const int* a, int* out, float* fsum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicMin(&out[0], a[i]);
  atomicMax(&out[1], a[i]);
  atomicAnd(&out[2], a[i] | 0x10);
  atomicOr(&out[3], a[i] & 0xff);
  atomicXor(&out[4], a[i]);
  atomicSub(&out[5], 3);
  atomicInc((unsigned*)&out[6], 9u);
  atomicAdd(fsum, 0.5f);
}
