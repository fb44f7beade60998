// Sum, rung 3: halves are added instead of neighbours. The threads at work are always the first ones, so whole
// warps fall idle, and a warp's 32 words lie in 32 banks. *out holds 0 before the launch.
#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) sum(const float* in, float* out, unsigned n)
{
    __shared__ float part[2 * BLOCK];
    unsigned t = threadIdx.x, i = blockIdx.x * 2 * BLOCK + t;
    part[t] = i < n ? in[i] : 0;
    part[t + BLOCK] = i + BLOCK < n ? in[i + BLOCK] : 0;
    for (unsigned k = BLOCK; k > 0; k /= 2) {
        __syncthreads();
        if (t < k)
            part[t] += part[t + k];
    }
    if (t == 0)
        atomicAdd(out, part[0]);
}
