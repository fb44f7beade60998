// Sum, rung 4: a warp adds its 32 floats from register to register. Shared memory carries one float a warp,
// and one barrier is left. *out holds 0 before the launch.
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
    unsigned t = threadIdx.x, i = blockIdx.x * 2 * BLOCK + t;
    float s = warp_sum((i < n ? in[i] : 0) + (i + BLOCK < n ? in[i + BLOCK] : 0));
    if (t % 32 == 0)
        part[t / 32] = s;
    __syncthreads();
    if (t < 32) {
        s = warp_sum(t < BLOCK / 32 ? part[t] : 0);
        if (t == 0)
            atomicAdd(out, s);
    }
}
