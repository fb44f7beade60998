// FP32 matrix product, rung 9: each warp owns a WM × WN tile of C, its lanes stand in a rectangle of it. A
// warp then reads few different floats of both matrices, its lanes the same ones, and a thread tile of
// 8 × 16 needs a quarter fewer shared loads for its multiply-adds than one of 8 × 8.
#ifndef BM
#define BM 128     // rows and columns of C that a block computes, and the depth of its tiles
#define BN 128
#define BK 8
#define WM 64      // rows and columns of C that a warp computes
#define WN 64
#define TM 8       // rows and columns of C that a thread computes, in groups of four
#define TN 16
#define STAGES 4   // tiles in shared memory
#endif
#define THREADS (BM / TM * (BN / TN))
#define LANES_M (WM / TM)   // a warp's lanes down and across its tile
#define LANES_N (WN / TN)

// Whether rows of `cols` floats can be accessed 16 bytes at a time.
__device__ bool wide(const float* X, int cols) { return cols % 4 == 0 && (size_t)X % 16 == 0; }

// Start copying 4 or 16 bytes to shared memory, past the registers; zeros are written where `inside` is false.
__device__ void copy4(float* to, const float* from, bool inside)
{
    unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(inside ? 4 : 0));
}

__device__ void copy16(float* to, const float* from, bool inside)
{
    unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(inside ? 16 : 0));
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
    extern __shared__ __align__(16) float tiles[];
    auto As = (float (*)[BK][BM + 4])tiles;
    auto Bs = (float (*)[BK][BN])(tiles + STAGES * BK * (BM + 4));
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int r = warp / (BN / WN) * WM + lane / LANES_N * 4, c = warp % (BN / WN) * WN + lane % LANES_N * 4;
    __align__(16) float sum[TM][TN] = {}, a[TM], b[TN];

    auto fetch = [&](int k0, int stage) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            int row = i / 8 % BM, k = i / (8 * BM) * 8 + i % 8;
            const float* from = A + (size_t)(row0 + row) * K + k0 + k;
            copy4(&As[stage][k][row], from, row0 + row < M && k0 + k < K);
        }
        for (int i = threadIdx.x; i < BK * BN / 4; i += THREADS) {
            int k = i / (BN / 4), col = i % (BN / 4) * 4;
            const float* from = B + (size_t)(k0 + k) * N + col0 + col;
            if (wide(B, N))
                copy16(&Bs[stage][k][col], from, k0 + k < K && col0 + col < N);
            else
                for (int j = 0; j < 4; j++)
                    copy4(&Bs[stage][k][col + j], from + j, k0 + k < K && col0 + col + j < N);
        }
        asm volatile("cp.async.commit_group;");
    };

    for (int stage = 0; stage < STAGES - 1; stage++)
        fetch(stage * BK, stage);
    for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage = (stage + 1) % STAGES) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");   // this tile has landed …
        __syncthreads();                                                      // … and so have all threads' parts
        fetch(k0 + (STAGES - 1) * BK, (stage + STAGES - 1) % STAGES);
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a[i] = *(float4*)&As[stage][k][r + i * LANES_M];
            for (int j = 0; j < TN; j += 4)
                *(float4*)&b[j] = *(float4*)&Bs[stage][k][c + j * LANES_N];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            store4(C, row0 + r + i / 4 * 4 * LANES_M + i % 4, col0 + c + j * LANES_N, M, N, &sum[i][j]);
}
