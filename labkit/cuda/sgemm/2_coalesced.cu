// FP32 matrix product, rung 2: neighbouring threads walk along a row of C instead. They read neighbouring
// floats of B and all the same float of A; the arithmetic is that of rung 1.
#ifndef BM
#define BM 16   // rows and columns of C that a block computes
#define BN 16
#endif

extern "C" __global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x / BN;
    int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float sum = 0;
    for (int k = 0; k < K; k++)
        sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    C[(size_t)row * N + col] = sum;
}
