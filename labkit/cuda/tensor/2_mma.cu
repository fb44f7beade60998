// BF16 matrix product on tensor cores, rung 2: mma.sync. ldmatrix feeds it from shared memory that is swizzled
// instead of padded, and cp.async fills a ring of STAGES tiles, so that the next tiles are on their way while
// this one is multiplied. Blocks that run together take a patch of C about as high as wide: they share more in L2.
#include <cuda_bf16.h>
#ifndef BM
#define BM 128     // rows and columns of C that a block computes
#define BN 256
#define BK 64      // depth of one step: a row of the tile of A is one line of 32 banks
#define WM 64      // rows and columns of a warp
#define WN 64
#define STAGES 4   // places for tiles
#define GROUP 8    // blocks of a column of C that run one after another
#endif
#define THREADS (BM / WM * (BN / WN) * 32)
#define AHEAD (STAGES - 2)   // tiles under way; the others are in use: of the one before, a warp may be reading still
#define STAGE ((BM * BK + BK * BN) / 8)   // 16-byte chunks of one tile of A and one of B

typedef __nv_bfloat16 bf16;

// Where a 16-byte chunk of a row lies. ldmatrix reads one chunk of eight rows: the XOR puts them in different banks.
__device__ unsigned at(unsigned row, unsigned chunk, unsigned per_row) { return row * per_row + (chunk ^ row % 8); }

__device__ unsigned shared(const uint4* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// Begins to copy a tile of ROWS × COLS, with zeros beyond the matrix's edge.
template <unsigned ROWS, unsigned COLS>
__device__ void copy(uint4* tile, const bf16* from, int top, int left, int rows, int cols)
{
    const unsigned PER_ROW = COLS / 8, HIGH = THREADS / PER_ROW;   // a thread takes every HIGH-th row
    unsigned row = threadIdx.x / PER_ROW, chunk = threadIdx.x % PER_ROW;
    int x = left + 8 * chunk;
    unsigned to = shared(&tile[at(row, chunk, PER_ROW)]);   // HIGH is a multiple of 8: the XOR is the same further down
    from += (size_t)(top + row) * cols + x;
    if (cols % 8 == 0 && top + ROWS <= rows && left + COLS <= cols)   // all inside: the common case asks no more
        #pragma unroll
        for (unsigned r = 0; r < ROWS; r += HIGH, from += (size_t)HIGH * cols)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + r * PER_ROW * 16), "l"(from));
    else if (cols % 8 == 0)
        for (unsigned r = 0; r < ROWS; r += HIGH) {
            bool inside = top + row + r < rows && x < cols;   // 16 bytes, of which there are all or none
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(to + r * PER_ROW * 16), "l"(from + (size_t)r * cols), "r"(inside ? 16 : 0));
        }
    else   // rows begin anywhere
        for (unsigned e = 0; e < ROWS / HIGH * 8; e++) {
            unsigned r = e / 8 * HIGH, i = e % 8;
            bool inside = top + row + r < rows && x + i < cols;
            ((bf16*)&tile[at(row + r, chunk, PER_ROW)])[i] = inside ? from[(size_t)r * cols + i] : __float2bfloat16(0);
        }
}

// Writes a finished tile of C, whole chunks where rows begin on 16 bytes.
__device__ void write(bf16* C, const uint4* tile, int top, int left, int rows, int cols)
{
    for (unsigned e = threadIdx.x; e < BM * BN / 8; e += THREADS) {
        unsigned row = e / (BN / 8), chunk = e % (BN / 8);
        int x = left + 8 * chunk;
        bf16* to = C + (size_t)(top + row) * cols + x;
        const uint4* from = &tile[at(row, chunk, BN / 8)];
        if (top + row < rows && cols % 8 == 0 && x < cols)
            *(uint4*)to = *from;
        else
            for (int i = 0; i < 8 && top + row < rows && x + i < cols; i++)
                to[i] = ((const bf16*)from)[i];
    }
}

__device__ void load(unsigned (&four)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
                 : "r"(from));
}

__device__ void load_turned(unsigned (&four)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
                 : "r"(from));
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
tensor(const bf16* A, const bf16* B, bf16* C, int M, int N, int K)
{
    extern __shared__ __align__(128) uint4 ring[];
    int id = blockIdx.y * gridDim.x + blockIdx.x, first = id / (GROUP * gridDim.x) * GROUP;
    int high = min(gridDim.y - first, GROUP), within = id - first * gridDim.x;
    int top = (first + within % high) * BM, left = within / high * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (K + BK - 1) / BK;
    int row = warp / (BN / WN) * WM, col = warp % (BN / WN) * WN;
    float sum[WM / 16][WN / 8][4] = {};

    auto fetch = [&](int step) {
        uint4* tile = ring + step % STAGES * STAGE;
        if (step < steps) {
            copy<BM, BK>(tile, A, top, step * BK, M, K);
            copy<BK, BN>(tile + BM * BK / 8, B, step * BK, left, K, N);
        }
        asm volatile("cp.async.commit_group;");
    };
    unsigned fa[2][4], fb[2][WN / 16][4];
    // Where a lane reads: chunk 2 k further in A's rows and 2 j in B's is an XOR, whole rows further down is a sum.
    unsigned from_a = shared(ring + at(row + lane % 16, lane / 16, BK / 8));
    unsigned from_b = shared(ring + BM * BK / 8 + at(lane % 16, col / 8 + lane / 16, BN / 8));
    auto load_a = [&](unsigned tile, int k, int i) { load(fa[i % 2], (from_a + tile ^ 32 * k) + 16 * i * BK * 2); };
    auto load_b = [&](unsigned tile, int k, int j) {   // B's rows are k: turned while it is loaded
        load_turned(fb[k % 2][j], (from_b + tile ^ 32 * j) + 16 * k * BN * 2);
    };
    auto meet = [] {   // the next tile has come for all, and the one before this has been read by all
        asm volatile("cp.async.wait_group %0;" :: "n"(AHEAD - 1));
        __syncthreads();
    };
    for (int step = 0; step < AHEAD; step++)
        fetch(step);
    meet();
    #pragma unroll
    for (int j = 0; j < WN / 16; j++)
        load_b(0, 0, j);
    load_a(0, 0, 0);
    for (int step = 0; step < steps; step++) {
        unsigned tile = step % STAGES * STAGE * 16, next = (step + 1) % STAGES * STAGE * 16;
        fetch(step + AHEAD);   // into the place of the tile before the last
        #pragma unroll
        for (int k = 0; k < BK / 16; k++) {
            bool last = k == BK / 16 - 1;
            if (last)
                meet();
            #pragma unroll
            for (int i = 0; i < WM / 16; i++) {   // what comes next is loaded before this is multiplied
                if (i < WM / 16 - 1)
                    load_a(tile, k, i + 1);
                if (!last || step + 1 < steps) {
                    if (i == WM / 16 - 1)
                        load_a(last ? next : tile, (k + 1) % (BK / 16), 0);
                    #pragma unroll
                    for (int j = i; j < WN / 16; j += WM / 16)
                        load_b(last ? next : tile, (k + 1) % (BK / 16), j);
                }
                #pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    multiply(sum[i][j], fa[i % 2], fb[k % 2][j / 2][j % 2 * 2], fb[k % 2][j / 2][j % 2 * 2 + 1]);
            }
        }
    }
    __syncthreads();   // the ring is free: C goes through it, so that whole rows are written
    #pragma unroll
    for (int i = 0; i < WM / 16; i++)
        #pragma unroll
        for (int j = 0; j < WN / 8; j++)
            #pragma unroll
            for (int half = 0; half < 2; half++) {   // a lane holds two neighbours of rows 8 apart
                unsigned place = at(row + 16 * i + 8 * half + lane / 4, (col + 8 * j) / 8, BN / 8);
                ((__nv_bfloat162*)&ring[place])[lane % 4] =
                    __floats2bfloat162_rn(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
            }
    __syncthreads();
    write(C, ring, top, left, M, N);
}
