// FP32 matrix product, rung 10: all of it, tuned. A thread's next floats are read from shared memory while the
// current ones are multiplied, across the barrier too; A is fetched 16 bytes at a time through registers, a
// quarter of the copies; a block inside the matrix takes a path without bounds checks; and blocks that run
// together form GROUP rows of tiles, so that their A and B stay in the L2 cache.
#ifndef BM
#define BM 128     // rows and columns of C that a block computes, and the depth of its tiles
#define BN 256
#define BK 16
#define WM 64      // rows and columns of C that a warp computes
#define WN 64
#define TM 8       // rows and columns of C that a thread computes, in groups of four
#define TN 16
#define STAGES 3   // tiles in shared memory
#define BLOCKS 1   // blocks that must fit on an SM: caps the registers
#define GROUP 8    // rows of tiles that are computed together
#endif
#define THREADS (BM / TM * (BN / TN))
#define LANES_N (WN / TN)   // lanes of a warp across its tile, and down
#define LANES_M (WM / TM)
#define COPIES_A (BM * BK / 4 / THREADS)
#define COPIES_B (BK * BN / 4 / THREADS)

__device__ bool wide(const float* X, int cols) { return cols % 4 == 0 && (size_t)X % 16 == 0; }

template <int BYTES> __device__ void copy(float* to, const float* from, bool inside)
{
    unsigned address = __cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(inside ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(inside ? 4 : 0));
}

// WHOLE: the block lies inside all matrices, whose rows can be read 16 bytes at a time, and K fills whole tiles.
template <bool WHOLE>
__device__ void product(const float* A, const float* B, float* C, int M, int N, int K, int row0, int col0)
{
    extern __shared__ __align__(16) float tiles[];
    auto As = (float (*)[BK][BM + 4])tiles;   // four floats of padding: turned stores without bank conflicts
    auto Bs = (float (*)[BK][BN])(tiles + STAGES * BK * (BM + 4));
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Lanes in pairs of rows: an 8-lane quarter of a 16-byte read touches few different addresses of A and of B.
    int r = warp / (BN / WN) * WM + (lane / (2 * LANES_N) * 2 + lane % 2) * 4;
    int c = warp % (BN / WN) * WN + lane % (2 * LANES_N) / 2 * 4;
    __align__(16) float sum[TM][TN] = {}, a[2][TM], b[2][TN];
    float4 nextA[COPIES_A];

    // Where a thread's first copies lie in a tile, and in the matrices: there `down` and `right` lead to the others.
    const int rowA = threadIdx.x / 2, kA = threadIdx.x % 2 * 4;
    const int kB = threadIdx.x / (BN / 4), colB = threadIdx.x % (BN / 4) * 4;
    const float* fromA = A + (size_t)(row0 + rowA) * K + kA;
    const float* fromB = B + (size_t)kB * N + col0 + colB;

    auto fetch = [&](int k0, int stage) {   // starts the copies of one tile
        #pragma unroll
        for (int n = 0; n < COPIES_A; n++) {
            const int down = n * (THREADS / 2) % BM, right = n * (THREADS / 2) / BM * 8;
            const float* from = fromA + (size_t)down * K + k0 + right;
            int left = WHOLE ? 4 : row0 + rowA + down < M ? K - (k0 + kA + right) : 0;   // floats of the matrix
            if (WHOLE)
                nextA[n] = *(const float4*)from;
            else
                nextA[n] = make_float4(left > 0 ? from[0] : 0, left > 1 ? from[1] : 0,
                                       left > 2 ? from[2] : 0, left > 3 ? from[3] : 0);
        }
        #pragma unroll
        for (int n = 0; n < COPIES_B; n++) {
            const int down = n * (THREADS / (BN / 4));
            const float* from = fromB + (size_t)(k0 + down) * N;
            if (WHOLE)
                copy<16>(&Bs[stage][kB + down][colB], from, true);
            else
                for (int j = 0; j < 4; j++)
                    copy<4>(&Bs[stage][kB + down][colB + j], from + j, k0 + kB + down < K && col0 + colB + j < N);
        }
        asm volatile("cp.async.commit_group;");
    };
    auto put = [&](int stage) {   // turns A's tile
        #pragma unroll
        for (int n = 0; n < COPIES_A; n++) {
            const int down = n * (THREADS / 2) % BM, right = n * (THREADS / 2) / BM * 8;
            float* to = &As[stage][kA + right][rowA + down];
            to[0] = nextA[n].x, to[BM + 4] = nextA[n].y, to[2 * (BM + 4)] = nextA[n].z, to[3 * (BM + 4)] = nextA[n].w;
        }
    };
    auto read = [&](int half, int stage, int k) {   // a thread's floats of one k
        #pragma unroll
        for (int i = 0; i < TM; i += 4)
            *(float4*)&a[half][i] = *(float4*)&As[stage][k][r + i * LANES_M];
        #pragma unroll
        for (int j = 0; j < TN; j += 4)
            *(float4*)&b[half][j] = *(float4*)&Bs[stage][k][c + j * LANES_N];
    };

    for (int stage = 0; stage < STAGES - 1; stage++) {
        fetch(stage * BK, stage);
        put(stage);
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    read(0, 0, 0);
    int stage = 0, free = STAGES - 1;   // the tile in use, and the one that has been used up
    for (int k0 = 0; k0 < K; k0 += BK) {
        bool more = !WHOLE || k0 + (STAGES - 1) * BK < K;
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                if (more)
                    put(free);
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");   // the next tile has landed
                __syncthreads();
                free = stage;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
            }
            read((k + 1) % 2, stage, (k + 1) % BK);
            if (k == 0) {
                if (more)
                    fetch(k0 + (STAGES - 1) * BK, free);
                else
                    asm volatile("cp.async.commit_group;");   // an empty one: the count of those in flight stays
            }
            #pragma unroll
            for (int i = 0; i < TM; i++)
                #pragma unroll
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[k % 2][i] * b[k % 2][j];
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; i++)
        #pragma unroll
        for (int j = 0; j < TN; j += 4) {
            int row = row0 + r + i / 4 * 4 * LANES_M + i % 4, col = col0 + c + j * LANES_N;
            float* to = C + (size_t)row * N + col;
            if (WHOLE)
                *(float4*)to = *(float4*)&sum[i][j];
            else
                for (int l = 0, left = row < M ? N - col : 0; l < 4; l++)
                    if (l < left)
                        to[l] = sum[i][j + l];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    int block = blockIdx.y * gridDim.x + blockIdx.x, top = block / (GROUP * gridDim.x) * GROUP;
    int rows = min(GROUP, gridDim.y - top), within = block - top * gridDim.x;
    int row0 = (top + within % rows) * BM, col0 = within / rows * BN;
    bool whole = row0 + BM <= M && col0 + BN <= N && K % BK == 0 && K >= STAGES * BK;
    if (whole && wide(A, K) && wide(B, N) && wide(C, N))
        product<true>(A, B, C, M, N, K, row0, col0);
    else
        product<false>(A, B, C, M, N, K, row0, col0);
}
