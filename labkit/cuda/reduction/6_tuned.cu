// Sum, rung 6: each thread has UNROLL loads of 16 bytes in flight before it uses the first, so that the memory never
// waits for the SM. The last block to arrive adds the others' results in a fixed order: the same bits every time,
// and *out needs no 0 before. Any n, any alignment; at most MAX_BLOCKS blocks; one launch at a time.
#ifndef BLOCK
#define BLOCK 512
#endif
#ifndef UNROLL
#define UNROLL 8
#endif
#ifndef RESIDENT
#define RESIDENT 2   // blocks an SM has registers for: few, so that every load has its own
#endif
#ifndef LOAD
#define LOAD __ldcs   // read once: first to leave the caches
#endif
#define MAX_BLOCKS 16384

__device__ float results[MAX_BLOCKS];
__device__ unsigned arrived;   // 0 before and after every launch

__device__ float warp_sum(float s)
{
    for (int k = 16; k > 0; k /= 2)
        s += __shfl_down_sync(~0u, s, k);
    return s;   // in lane 0
}

__device__ float block_sum(float s)
{
    __shared__ float part[BLOCK / 32];
    s = warp_sum(s);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    return warp_sum(threadIdx.x < BLOCK / 32 ? part[threadIdx.x] : 0);   // in thread 0
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT) sum(const float* in, float* out, unsigned n)
{
    __shared__ bool last;
    const unsigned tile = BLOCK * UNROLL, t = threadIdx.x, id = blockIdx.x * BLOCK + t;
    unsigned head = min(n, (unsigned)(-(size_t)in / 4 % 4)), quads = (n - head) / 4, tiles = quads / tile;
    const float4* from = (const float4*)(in + head);   // the first 16-byte boundary
    float4 s = make_float4(0, 0, 0, 0);                // four chains of additions that don't wait for each other
    for (unsigned b = blockIdx.x; b < tiles; b += gridDim.x) {
        float4 v[UNROLL];
        for (int u = 0; u < UNROLL; u++)
            v[u] = LOAD(from + b * tile + u * BLOCK + t);
        for (int u = 0; u < UNROLL; u++)
            s.x += v[u].x, s.y += v[u].y, s.z += v[u].z, s.w += v[u].w;
    }
    for (unsigned i = tiles * tile + id; i < quads; i += gridDim.x * BLOCK) {   // less than a tile, over all blocks
        float4 v = from[i];
        s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
    }
    if (id < head)   // at most three floats before the boundary,
        s.x += in[id];
    if (id < (n - head) % 4)   // and three at the end
        s.y += in[head + 4 * quads + id];
    float total = block_sum((s.x + s.y) + (s.z + s.w));
    if (t == 0) {
        results[blockIdx.x] = total;
        __threadfence();   // the result is there before the arrival is counted
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;   // wraps to 0 for the next launch
    }
    __syncthreads();
    if (last) {
        total = 0;
        for (unsigned b = t; b < gridDim.x; b += BLOCK)
            total += __ldcg(results + b);   // from L2, where the others' results are
        total = block_sum(total);
        if (t == 0)
            *out = total;
    }
}
