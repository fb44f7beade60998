// Sum, rung 5: as many blocks as the GPU holds, whatever n is. Each thread adds many floats in registers, 16 bytes
// a load; tree and atomic are paid once per block. `in` lies at a multiple of 16 bytes, *out holds 0 before.
#ifndef BLOCK
#define BLOCK 256
#endif

__device__ float warp_sum(float s)
{
    for (int k = 16; k > 0; k /= 2)
        s += __shfl_down_sync(~0u, s, k);
    return s;   // in lane 0
}

extern "C" __global__ void __launch_bounds__(BLOCK) sum(const float* in, float* out, unsigned n)
{
    __shared__ float part[BLOCK / 32];
    unsigned t = threadIdx.x, first = blockIdx.x * BLOCK + t;
    float s = 0;
    #pragma unroll 1   // one load in flight a thread: the next rung has more
    for (unsigned i = first; i < n / 4; i += gridDim.x * BLOCK) {
        float4 v = ((const float4*)in)[i];
        s += (v.x + v.y) + (v.z + v.w);
    }
    if (first < n % 4)   // the end that does not fill 16 bytes
        s += in[n / 4 * 4 + first];
    s = warp_sum(s);
    if (t % 32 == 0)
        part[t / 32] = s;
    __syncthreads();
    if (t < 32) {
        s = warp_sum(t < BLOCK / 32 ? part[t] : 0);
        if (t == 0)
            atomicAdd(out, s);
    }
}
