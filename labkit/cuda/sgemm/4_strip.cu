// FP32 matrix product, rung 4: a thread computes TM elements of a column of C and keeps them in registers.
// A float of B that it has read from shared memory is used TM times.
#ifndef BM
#define BM 64   // rows and columns of C that a block computes, and the depth of its tiles
#define BN 64
#define BK 16
#define TM 8    // rows of C that a thread computes
#endif
#define THREADS (BM * BN / TM)

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int r = threadIdx.x / BN * TM, c = threadIdx.x % BN;
    float sum[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            int row = row0 + i / BK, k = k0 + i % BK;
            As[i / BK][i % BK] = row < M && k < K ? A[(size_t)row * K + k] : 0;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            int k = k0 + i / BN, col = col0 + i % BN;
            Bs[i / BN][i % BN] = k < K && col < N ? B[(size_t)k * N + col] : 0;
        }
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            float b = Bs[k][c];
            for (int i = 0; i < TM; i++)
                sum[i] += As[r + i][k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row0 + r + i < M && col0 + c < N)
            C[(size_t)(row0 + r + i) * N + col0 + c] = sum[i];
}
