// Transpose, rung 1: read a row, write a column. Lanes write n floats apart: one sector each.
extern "C" __global__ void transpose(const float* in, float* out, int n)
{
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        out[(size_t)x * n + y + k] = in[(size_t)(y + k) * n + x];
}
