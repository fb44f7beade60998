// FP32 matrix product, rung 5: a thread computes TM × TN elements of C. For TM + TN floats read from shared
// memory it does TM · TN multiply-adds. Its rows and columns lie apart, so that neighbouring threads read
// neighbouring floats: no bank conflicts, and coalesced writes.
#ifndef BM
#define BM 128  // rows and columns of C that a block computes, and the depth of its tiles
#define BN 128
#define BK 8
#define TM 8    // rows and columns of C that a thread computes
#define TN 8
#endif
#define THREADS (BM / TM * (BN / TN))

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int r = threadIdx.x / (BN / TN), c = threadIdx.x % (BN / TN);
    float sum[TM][TN] = {};
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
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++)
                a[i] = As[r + i * (BM / TM)][k];
            for (int j = 0; j < TN; j++)
                b[j] = Bs[k][c + j * (BN / TN)];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) {
            int row = row0 + r + i * (BM / TM), col = col0 + c + j * (BN / TN);
            if (row < M && col < N)
                C[(size_t)row * N + col] = sum[i][j];
        }
}
