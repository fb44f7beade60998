// BF16 matrix product on tensor cores, rung 1: WMMA. A warp multiplies 16 × 16 fragments that it loads from
// shared memory; how a fragment lies in its registers is the compiler's business. Copy, wait, multiply, wait:
// nothing overlaps but what other warps do meanwhile.
#include <cuda_bf16.h>
#include <mma.h>
#ifndef BM
#define BM 128   // rows and columns of C that a block computes
#define BN 128
#define BK 32    // depth of one step
#define WM 32    // rows and columns of a warp
#define WN 32
#endif
#define THREADS (BM / WM * (BN / WN) * 32)
#define PAD 8    // 16 bytes more a row, so that the eight rows of a load lie in different banks

using namespace nvcuda::wmma;
typedef __nv_bfloat16 bf16;

// Eight neighbours of a row, zero beyond the edge: one 16-byte load where every row begins on 16 bytes.
__device__ uint4 eight(const bf16* from, int row, int col, int rows, int cols)
{
    union { uint4 all; unsigned short each[8]; } out = {make_uint4(0, 0, 0, 0)};
    from += (size_t)row * cols + col;
    if (row < rows && cols % 8 == 0 && col < cols)
        return *(const uint4*)from;
    for (int i = 0; i < 8; i++)
        if (row < rows && col + i < cols)
            out.each[i] = ((const unsigned short*)from)[i];
    return out.all;
}

extern "C" __global__ void __launch_bounds__(THREADS)
tensor(const bf16* A, const bf16* B, bf16* C, int M, int N, int K)
{
    __shared__ __align__(16) bf16 a[BM][BK + PAD], b[BK][BN + PAD];
    __shared__ __align__(16) float patch[THREADS / 32][16][16];
    int top = blockIdx.y * BM, left = blockIdx.x * BN, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp / (BN / WN) * WM, col = warp % (BN / WN) * WN;
    fragment<accumulator, 16, 16, 16, float> sum[WM / 16][WN / 16];
    #pragma unroll
    for (int i = 0; i < WM / 16; i++)
        #pragma unroll
        for (int j = 0; j < WN / 16; j++)
            fill_fragment(sum[i][j], 0.0f);

    for (int k = 0; k < K; k += BK) {
        for (int e = 8 * threadIdx.x; e < BM * BK; e += 8 * THREADS)
            *(uint4*)&a[e / BK][e % BK] = eight(A, top + e / BK, k + e % BK, M, K);
        for (int e = 8 * threadIdx.x; e < BK * BN; e += 8 * THREADS)
            *(uint4*)&b[e / BN][e % BN] = eight(B, k + e / BN, left + e % BN, K, N);
        __syncthreads();
        for (int q = 0; q < BK; q += 16) {
            fragment<matrix_a, 16, 16, 16, bf16, row_major> fa[WM / 16];
            fragment<matrix_b, 16, 16, 16, bf16, row_major> fb;
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                load_matrix_sync(fa[i], &a[row + 16 * i][q], BK + PAD);
            #pragma unroll
            for (int j = 0; j < WN / 16; j++) {
                load_matrix_sync(fb, &b[q][col + 16 * j], BN + PAD);
                #pragma unroll
                for (int i = 0; i < WM / 16; i++)
                    mma_sync(sum[i][j], fa[i], fb, sum[i][j]);
            }
        }
        __syncthreads();
    }
    // C is BF16 and the sums are FP32: each warp turns its fragments over in a patch of shared memory.
    #pragma unroll
    for (int i = 0; i < WM / 16; i++)
        #pragma unroll
        for (int j = 0; j < WN / 16; j++) {
            store_matrix_sync(&patch[warp][0][0], sum[i][j], 16, mem_row_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32) {
                int y = top + row + 16 * i + e / 16, x = left + col + 16 * j + e % 16;
                if (y < M && x < N)
                    C[(size_t)y * N + x] = __float2bfloat16(patch[warp][e / 16][e % 16]);
            }
            __syncwarp();
        }
}
