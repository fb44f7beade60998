// BF16 matrix product on tensor cores, rung 3, for Hopper alone (sm_90a). The copy engine (TMA) brings whole tiles
// and wgmma reads them from shared memory, so that no thread touches A or B. One warpgroup only asks for tiles, two
// only multiply; they meet at mbarriers, and while C goes out, tiles of the next part of C come in.
// The tensor maps of A (boxes of 64 × BM), B and C (64 × 64), all with the 128-byte swizzle, are parameters by value.
#include <cuda_bf16.h>
#ifndef BM
#define BM 128      // rows and columns of C that a block computes at a time
#define BN 256      // 128 or 256
#define STAGES 4    // tiles of A and B in the ring
#define BOXES 2     // of 64 × 64 elements, in which a warpgroup hands C to the copy engine
#define GROUP 8     // rows of tiles that are taken together, so that they share B in L2
#define CLUSTER 2   // blocks, one below the other, that read B once: each loads a part for all
#endif
#define BK 64       // bf16 elements in 128 bytes, the line within which the swizzle moves 16-byte chunks
#define BOX (64 * 128)                      // bytes of 64 rows of a line
#define STAGE ((BM / 64 + BN / 64) * BOX)   // bytes of a tile of A and one of B

typedef unsigned long long u64;
struct __align__(64) TensorMap { u64 opaque[16]; };   // cuda.h, which NVRTC does not bring, calls it CUtensorMap

// ---- mbarriers: a phase ends when all have arrived and all expected bytes have come

__device__ void wait(unsigned barrier, unsigned parity)
{
    for (unsigned done = 0, tries = 0; !done; tries++) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
#ifdef DEBUG_SPIN
        if (tries > DEBUG_SPIN)   // give up rather than hang
            __trap();
#endif
    }
}

__device__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// At the barrier of a block of this cluster. Who arrives has read and written nothing that the others must see:
// release.cluster would wait at a fence of the whole GPU.
__device__ void arrive(unsigned barrier, unsigned block)
{
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(barrier), "r"(block) : "memory");
}

__device__ void meet_cluster()
{
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

// ---- the copy engine: a box of a matrix whose corner is (x, y)

__device__ void fetch(unsigned to, const TensorMap* map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ void fetch_for_all(unsigned to, const TensorMap* map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((short)((1 << CLUSTER) - 1)) : "memory");
}

__device__ void put(const TensorMap* map, int x, int y, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 "cp.async.bulk.commit_group;" :: "l"(map), "r"(x), "r"(y), "r"(from) : "memory");
}

// ---- wgmma: 64 × BN of C from 64 × 16 of A and 16 × BN of B

// Where a matrix lies: in lines of 128 bytes, eight of them (1024 bytes) swizzled together, and a box further on the
// next 64 columns (of B: A is one line wide). Higher bits of an address name the block of the cluster.
__device__ u64 matrix(unsigned address)
{
    return (address & 0x3ffff) >> 4 | BOX >> 4 << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SIXTY_FOUR(i) SIXTEEN(i), SIXTEEN(i + 16), SIXTEEN(i + 32), SIXTEEN(i + 48)
#define TEN(t) "%" t "0,%" t "1,%" t "2,%" t "3,%" t "4,%" t "5,%" t "6,%" t "7,%" t "8,%" t "9,"
#define SIXTY TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5")

__device__ void multiply(float (&d)[BN / 2], u64 a, u64 b, int add)
{
#if BN == 256
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 SIXTY TEN("6") TEN("7") TEN("8") TEN("9") TEN("10") TEN("11") "%120,%121,%122,%123,%124,%125,%126,%127"
                 "}, %128, %129, p, 1, 1, 0, 1; }" : SIXTY_FOUR(0), SIXTY_FOUR(64) : "l"(a), "l"(b), "r"(add));
#else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 SIXTY "%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 1; }" : SIXTY_FOUR(0) : "l"(a), "l"(b), "r"(add));
#endif
}

template <int LEFT, int N>
__device__ void finish(float (&d)[N])   // all but the LEFT newest batches; no sum is read before
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory");
    #pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i]) :: "memory");
}

// ---- C: 64 × BN sums of a warpgroup, box by box through shared memory

__device__ unsigned pack(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&pair;
}

__device__ void write(const TensorMap* C, const float (&d)[BN / 2], int top, int left, unsigned boxes, int warpgroup)
{
    int thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane % 16;
    #pragma unroll
    for (int j = 0; j < BN / 64; j++) {
        unsigned box = boxes + j % BOXES * BOX;
        if (thread == 0)   // the copy engine has read what this box held before
            asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(BOXES - 1) : "memory");
        asm volatile("bar.sync %0, 128;" :: "r"(warpgroup) : "memory");
        #pragma unroll
        for (int i = 0; i < 4; i++) {   // 16 × 16 elements of each warp; chunks swizzled as the tensor map says
            const float* s = &d[32 * j + 8 * i];
            unsigned to = box + row * 128 + ((2 * i + lane / 16) ^ row % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                         :: "r"(to), "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])),
                            "r"(pack(s[6], s[7])) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");   // the copy engine sees what was stored
        asm volatile("bar.sync %0, 128;" :: "r"(warpgroup) : "memory");
        if (thread == 0)
            put(C, left + 64 * j, top, box);
    }
}

// ---- the order of tiles

struct Place {
    unsigned slot = 0, parity = 0;
    __device__ void next() { if (++slot == STAGES) slot = 0, parity ^= 1; }
};

__device__ void locate(int tile, int M, int N, int block, int& top, int& left)
{
    int high = (M + BM * CLUSTER - 1) / (BM * CLUSTER), wide = (N + BN - 1) / BN;
    int first = tile / (GROUP * wide) * GROUP, within = tile - first * wide, rows = min(high - first, GROUP);
    top = ((first + within % rows) * CLUSTER + block) * BM;
    left = within / rows * BN;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
tensor(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, const __grid_constant__ TensorMap C,
       int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned ring = (unsigned)__cvta_generic_to_shared(memory), boxes = ring + STAGES * STAGE;
    unsigned full = boxes + 2 * BOXES * BOX, empty = full + 8 * STAGES;
    int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), block = blockIdx.x % CLUSTER;
    int tiles = (M + BM * CLUSTER - 1) / (BM * CLUSTER) * ((N + BN - 1) / BN), steps = (K + BK - 1) / BK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + 8 * s) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(empty + 8 * s), "r"(8 * CLUSTER) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    meet_cluster();

    Place at;
    int top, left;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
                locate(tile, M, N, block, top, left);
                for (int step = 0; step < steps; step++, at.next()) {
                    unsigned a = ring + at.slot * STAGE, b = a + BM / 64 * BOX, ready = full + 8 * at.slot;
                    wait(empty + 8 * at.slot, at.parity ^ 1);   // passes at once in the first round
                    expect(ready, STAGE);
                    fetch(a, &A, step * BK, top, ready);
                    for (int j = block; j < BN / 64; j += CLUSTER)
                        if (CLUSTER > 1)
                            fetch_for_all(b + j * BOX, &B, left + 64 * j, step * BK, ready);
                        else
                            fetch(b + j * BOX, &B, left + 64 * j, step * BK, ready);
                }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int HIGH = BM / 128;   // times 64 rows of C
        float sum[HIGH][BN / 2];
        int lane = threadIdx.x % 32, mine = (warpgroup - 1) * HIGH;
        for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
            locate(tile, M, N, block, top, left);
            unsigned before = 0;
            for (int step = 0; step < steps; step++, at.next()) {
                unsigned a = ring + at.slot * STAGE, b = a + BM / 64 * BOX;
                wait(full + 8 * at.slot, at.parity);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                #pragma unroll
                for (int k = 0; k < BK / 16; k++)   // 32 bytes along A's lines, 16 lines down B
                    #pragma unroll
                    for (int i = 0; i < HIGH; i++)
                        multiply(sum[i], matrix(a + (mine + i) * BOX + k * 32), matrix(b + k * 2048), step + k);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");   // the step before is done
                if (step && lane < CLUSTER)
                    arrive(empty + 8 * before, lane);
                before = at.slot;
            }
            #pragma unroll
            for (int i = 0; i < HIGH; i++)
                finish<0>(sum[i]);
            if (lane < CLUSTER)
                arrive(empty + 8 * before, lane);
            #pragma unroll
            for (int i = 0; i < HIGH; i++)
                write(&C, sum[i], top + (mine + i) * 64, left, boxes + (warpgroup - 1) * BOXES * BOX, warpgroup);
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    meet_cluster();   // no block leaves while another's copies or arrivals are on their way to it
}
