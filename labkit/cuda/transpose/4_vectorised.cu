// Transpose, rung 4: 64 × 64 tiles, 16-byte accesses on both sides. A row of the tile is swizzled by its
// number, so that the column read needs no padding and float4 stays aligned. Blocks that run together
// write neighbouring tiles of the same rows: DRAM pages are filled while they are open.
#define TILE 64
#define VECTORS (TILE / 4)
#define ROWS (512 / VECTORS)

extern "C" __global__ void __launch_bounds__(512) transpose(const float* in, float* out, int n)
{
    __shared__ float4 tile[TILE][VECTORS];
    int lane = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS;
    const float4* from = (const float4*)(in + (size_t)blockIdx.x * TILE * n + blockIdx.y * TILE);
    float4* to = (float4*)(out + (size_t)blockIdx.y * TILE * n + blockIdx.x * TILE);
    float4 held[TILE / ROWS];
    for (int k = 0; k < TILE / ROWS; k++)   // all loads in flight before the first is used
        held[k] = from[(size_t)(row + ROWS * k) * (n / 4) + lane];
    for (int k = 0; k < TILE / ROWS; k++)
        tile[row + ROWS * k][lane ^ ((row + ROWS * k) / 4)] = held[k];
    __syncthreads();
    const float* words = (const float*)tile;
    for (int k = 0; k < TILE / ROWS; k++) {
        int column = row + ROWS * k;
        const float* from_lane = words + 4 * lane * TILE + 4 * ((column / 4) ^ lane) + column % 4;
        to[(size_t)column * (n / 4) + lane] =
            make_float4(from_lane[0], from_lane[TILE], from_lane[2 * TILE], from_lane[3 * TILE]);
    }
}
