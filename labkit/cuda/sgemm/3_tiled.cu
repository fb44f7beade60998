// FP32 matrix product, rung 3: a block copies a tile of A and a tile of B to shared memory, then multiplies
// from there. A float of A is fetched once for BN columns of C, a float of B once for BM rows.
#ifndef BM
#define BM 32   // rows and columns of C that a block computes, and the depth of its tiles
#define BN 32
#define BK 32
#endif
#define THREADS (BM * BN)

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int r = threadIdx.x / BN, c = threadIdx.x % BN;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {   // zeros outside the matrix add nothing
            int row = row0 + i / BK, k = k0 + i % BK;
            As[i / BK][i % BK] = row < M && k < K ? A[(size_t)row * K + k] : 0;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            int k = k0 + i / BN, col = col0 + i % BN;
            Bs[i / BN][i % BN] = k < K && col < N ? B[(size_t)k * N + col] : 0;
        }
        __syncthreads();
        for (int k = 0; k < BK; k++)
            sum += As[r][k] * Bs[k][c];
        __syncthreads();
    }
    if (row0 + r < M && col0 + c < N)
        C[(size_t)(row0 + r) * N + col0 + c] = sum;
}
