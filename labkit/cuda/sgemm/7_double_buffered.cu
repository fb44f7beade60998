// FP32 matrix product, rung 7: two tiles of each matrix in shared memory. While one pair is multiplied, the
// next is on its way from global memory to registers; it is stored to the other pair at the end. The latency
// of a load is covered by arithmetic, and one barrier a tile is enough.
#ifndef BM
#define BM 128  // rows and columns of C that a block computes, and the depth of its tiles
#define BN 128
#define BK 8
#define TM 8    // rows and columns of C that a thread computes, in groups of four
#define TN 8
#endif
#define THREADS (BM / TM * (BN / TN))
#define COPIES_A (BM * BK / 4 / THREADS)   // 16-byte loads of a thread for one tile
#define COPIES_B (BK * BN / 4 / THREADS)

// Whether rows of `cols` floats can be accessed 16 bytes at a time.
__device__ bool wide(const float* X, int cols) { return cols % 4 == 0 && (size_t)X % 16 == 0; }

// Four neighbours of a row; zeros outside the matrix.
__device__ float4 load4(const float* X, int row, int col, int rows, int cols)
{
    if (row >= rows || col >= cols)
        return make_float4(0, 0, 0, 0);
    const float* x = X + (size_t)row * cols + col;
    if (wide(X, cols))
        return *(const float4*)x;
    return make_float4(x[0], col + 1 < cols ? x[1] : 0, col + 2 < cols ? x[2] : 0, col + 3 < cols ? x[3] : 0);
}

__device__ void store4(float* X, int row, int col, int rows, int cols, const float* value)
{
    if (row >= rows || col >= cols)
        return;
    float* x = X + (size_t)row * cols + col;
    if (wide(X, cols))
        *(float4*)x = *(const float4*)value;
    else
        for (int i = 0; i < 4; i++)
            if (col + i < cols)
                x[i] = value[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int r = threadIdx.x / (BN / TN) * 4, c = threadIdx.x % (BN / TN) * 4;
    __align__(16) float sum[TM][TN] = {}, a[TM], b[TN];
    float4 nextA[COPIES_A], nextB[COPIES_B];

    auto fetch = [&](int k0) {
        for (int n = 0; n < COPIES_A; n++) {
            int i = threadIdx.x + n * THREADS;
            nextA[n] = load4(A, row0 + i / 2 % BM, k0 + i / (2 * BM) * 8 + i % 2 * 4, M, K);
        }
        for (int n = 0; n < COPIES_B; n++) {
            int i = threadIdx.x + n * THREADS;
            nextB[n] = load4(B, k0 + i / (BN / 4), col0 + i % (BN / 4) * 4, K, N);
        }
    };
    auto put = [&](int half) {
        for (int n = 0; n < COPIES_A; n++) {
            int i = threadIdx.x + n * THREADS, row = i / 2 % BM, k = i / (2 * BM) * 8 + i % 2 * 4;
            As[half][k][row] = nextA[n].x, As[half][k + 1][row] = nextA[n].y;
            As[half][k + 2][row] = nextA[n].z, As[half][k + 3][row] = nextA[n].w;
        }
        for (int n = 0; n < COPIES_B; n++) {
            int i = threadIdx.x + n * THREADS;
            *(float4*)&Bs[half][i / (BN / 4)][i % (BN / 4) * 4] = nextB[n];
        }
    };

    fetch(0);
    put(0);
    __syncthreads();
    for (int k0 = 0, half = 0; k0 < K; k0 += BK, half ^= 1) {
        if (k0 + BK < K)
            fetch(k0 + BK);
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a[i] = *(float4*)&As[half][k][r + i * (BM / TM)];
            for (int j = 0; j < TN; j += 4)
                *(float4*)&b[j] = *(float4*)&Bs[half][k][c + j * (BN / TN)];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
        if (k0 + BK < K)
            put(half ^ 1);   // nobody reads that half any more: its last reader has passed the barrier below
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            store4(C, row0 + r + i / 4 * 4 * (BM / TM) + i % 4, col0 + c + j * (BN / TN), M, N, &sum[i][j]);
}
