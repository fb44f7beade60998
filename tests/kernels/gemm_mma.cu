#include <cuda_fp16.h>
extern "C" __global__ void gemm_mma(const half* a, const half* b, float* c) {
  __shared__ __align__(16) half s[16 * 16], t[16 * 8];
  int lane = threadIdx.x;
  for (int e = lane; e < 256; e += 32) s[e] = a[blockIdx.x * 256 + e];
  for (int e = lane; e < 128; e += 32) t[e] = b[blockIdx.x * 128 + e];
  __syncwarp();
  unsigned ra[4], rb[2];
  unsigned pa = (unsigned)__cvta_generic_to_shared(&s[(lane % 16) * 16 + lane / 16 * 8]);
  unsigned pb = (unsigned)__cvta_generic_to_shared(&t[(lane % 16) * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  float* o = c + blockIdx.x * 128;
  int g = lane / 4, q = lane % 4 * 2;
  o[g * 8 + q] = d[0];
  o[g * 8 + q + 1] = d[1];
  o[(g + 8) * 8 + q] = d[2];
  o[(g + 8) * 8 + q + 1] = d[3];
}
