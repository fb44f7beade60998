// Transpose, rung 2: turn the tile in shared memory, so that both global accesses run along rows.
extern "C" __global__ void transpose(const float* in, float* out, int n)
{
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = in[(size_t)(y + k) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)   // a column of 32 floats: all in one bank, 32 passes
        out[(size_t)(y + k) * n + x] = tile[threadIdx.x][threadIdx.y + k];
}
