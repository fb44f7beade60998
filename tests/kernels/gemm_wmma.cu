#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm_wmma(const half* a, const half* b, float* c, int n) {
  int y = blockIdx.y * 16, x = (blockIdx.x * 2 + threadIdx.x / 32) * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(fa, a + y * n + k, n);
    wmma::load_matrix_sync(fb, b + k * n + x, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2.0f;
  wmma::store_matrix_sync(c + y * n + x, fc, n, wmma::mem_row_major);
}
