// Sum, rung 2: a block adds 2 * BLOCK floats in shared memory, as a tree, and sends one atomic.
// Neighbours are added first: the threads still at work thin out in every warp (divergence), and thread t
// stands at word 2t (two passes over the banks). *out holds 0 before the launch.
#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) sum(const float* in, float* out, unsigned n)
{
    __shared__ float part[2 * BLOCK];
    unsigned t = threadIdx.x, i = blockIdx.x * 2 * BLOCK + t;
    part[t] = i < n ? in[i] : 0;
    part[t + BLOCK] = i + BLOCK < n ? in[i + BLOCK] : 0;
    for (unsigned k = 1; k <= BLOCK; k *= 2) {
        __syncthreads();
        if (t % k == 0)
            part[2 * t] += part[2 * t + k];
    }
    if (t == 0)
        atomicAdd(out, part[0]);
}
