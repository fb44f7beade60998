// FP32 matrix product C = A·B, rung 1: a thread for each element of C. Neighbouring threads walk down a
// column of C, so their reads of A and their writes lie a whole row apart: one sector for each lane.
#ifndef BM
#define BM 16   // rows and columns of C that a block computes
#define BN 16
#endif

extern "C" __global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x % BM;
    int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float sum = 0;
    for (int k = 0; k < K; k++)
        sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    C[(size_t)row * N + col] = sum;
}
