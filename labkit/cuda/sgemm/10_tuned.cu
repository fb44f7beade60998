// FP32 matrix product, rung 10: all of it, tuned. A thread's next floats are read from shared memory while the
// current ones are multiplied, across the barrier too; a block inside the matrix takes a path without bounds
// checks; and blocks that run together form GROUP rows of tiles, so that their A and B stay in the L2 cache.
#ifndef BM
#define BM 128     // rows and columns of C that a block computes, and the depth of its tiles
#define BN 128
#define BK 8
#define WM 64      // rows and columns of C that a warp computes
#define WN 64
#define TM 8       // rows and columns of C that a thread computes, in groups of four
#define TN 16
#define STAGES 4   // tiles in shared memory
#define BLOCKS 2   // blocks that must fit on an SM: caps the registers
#define GROUP 8    // rows of tiles that are computed together
#define A_ASYNC 1  // A by cp.async, a float at a time, or through registers, four at a time
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

    // A thread's place in the tiles: of A one float among 8 × THREADS / 8, or four among 8 × THREADS / 2.
    const int across = A_ASYNC ? 8 : 2, wideA = 8 / across;
    const int rowA = threadIdx.x / across, kA = threadIdx.x % across * wideA;
    const int kB = threadIdx.x / (BN / 4), colB = threadIdx.x % (BN / 4) * 4;
    unsigned fromA = (rowA * K + kA) * 4, fromB = (kB * N + colB) * 4;   // bytes from the tile's corner

    auto fetch = [&](int k0, int stage) {   // starts the copies of one tile
        const char* cornerA = (const char*)(A + (size_t)row0 * K + k0);
        const char* cornerB = (const char*)(B + (size_t)k0 * N + col0);
        #pragma unroll
        for (int n = 0; n < (A_ASYNC ? 4 : 1) * COPIES_A; n++) {
            const int down = n * (THREADS / across) % BM, right = n * (THREADS / across) / BM * 8;
            const float* from = (const float*)(cornerA + (fromA + (unsigned)(down * K + right) * 4));
            int k = k0 + kA + right;
            bool inside = WHOLE || (row0 + rowA + down < M && k < K);
            if (A_ASYNC)
                copy<4>(&As[stage][kA + right][rowA + down], from, inside);
            else if (WHOLE)
                nextA[n] = *(const float4*)from;
            else
                nextA[n] = make_float4(inside ? from[0] : 0, inside && k + 1 < K ? from[1] : 0,
                                       inside && k + 2 < K ? from[2] : 0, inside && k + 3 < K ? from[3] : 0);
        }
        #pragma unroll
        for (int n = 0; n < COPIES_B; n++) {
            const int down = n * (THREADS / (BN / 4));
            const float* from = (const float*)(cornerB + (fromB + (unsigned)(down * N) * 4));
            if (WHOLE)
                copy<16>(&Bs[stage][kB + down][colB], from, true);
            else
                for (int j = 0; j < 4; j++)
                    copy<4>(&Bs[stage][kB + down][colB + j], from + j, k0 + kB + down < K && col0 + colB + j < N);
        }
    };
    auto put = [&](int stage) {   // A's tile, where it came through registers
        #pragma unroll
        for (int n = 0; n < COPIES_A; n++) {
            const int down = n * (THREADS / across) % BM, right = n * (THREADS / across) / BM * 8;
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
        asm volatile("cp.async.commit_group;");
        if (!A_ASYNC)
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
                if (!A_ASYNC && more)
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
                asm volatile("cp.async.commit_group;");
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
                for (int l = 0; l < 4; l++)
                    if (row < M && col + l < N)
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
