#include <cuda_fp16.h>
extern "C" __global__ void half_precision(const half2* a, const half2* b, half2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __hadd2(__hmul2(a[i], b[i]), __float2half2_rn(0.5f * __low2float(a[i])));
}
