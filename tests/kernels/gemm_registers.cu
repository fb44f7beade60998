extern "C" __global__ void gemm_registers(const float* a, const float* b, float* c, int n) {
  __shared__ float s[8][64], t[8][64];
  int id = threadIdx.x, x = id % 16 * 4, y = id / 16 * 4, x0 = blockIdx.x * 64, y0 = blockIdx.y * 64;
  float v[4][4] = {};
  for (int k = 0; k < n; k += 8) {
    for (int j = 0; j < 2; j++) {
      int e = id + j * 256;
      s[e % 8][e / 8] = a[(y0 + e / 8) * n + k + e % 8];
      t[e / 64][e % 64] = b[(k + e / 64) * n + x0 + e % 64];
    }
    __syncthreads();
    for (int p = 0; p < 8; p++) {
      float4 r = *(float4*)&s[p][y], q = *(float4*)&t[p][x];
      float rr[4] = {r.x, r.y, r.z, r.w}, qq[4] = {q.x, q.y, q.z, q.w};
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) v[i][j] += rr[i] * qq[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) *(float4*)&c[(y0 + y + i) * n + x0 + x] = make_float4(v[i][0], v[i][1], v[i][2], v[i][3]);
}
