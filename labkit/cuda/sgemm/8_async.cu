// FP32 matrix product, rung 8: STAGES tiles of each matrix in shared memory, filled by cp.async. The copies pass
// by the registers, and several tiles are on their way at once. They cannot turn A; so A lies by rows, and a
// thread reads four neighbours of each of its rows at once, of which it uses one for each k.
#ifndef BM
#define BM 128     // rows and columns of C that a block computes, and the depth of its tiles
#define BN 128
#define BK 16
#define TM 8       // rows of C that a thread computes, and columns, in groups of four
#define TN 8
#define STAGES 3   // tiles in shared memory
#define BLOCKS 2   // blocks that must fit on an SM: caps the registers
#endif
#define THREADS (BM / TM * (BN / TN))

// Whether rows of `cols` floats can be accessed 16 bytes at a time.
__device__ bool wide(const float* X, int cols) { return cols % 4 == 0 && (size_t)X % 16 == 0; }

// Start copying four neighbours of a row to shared memory; zeros are written outside the matrix.
__device__ void copy4(float* to, const float* X, int row, int col, int rows, int cols)
{
    unsigned address = __cvta_generic_to_shared(to);
    const float* x = X + (size_t)row * cols + col;
    int left = row < rows ? cols - col : 0;   // floats of the row from here on
    if (wide(X, cols))
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(x), "r"(left > 0 ? 16 : 0));
    else
        for (int i = 0; i < 4; i++)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                         ::"r"(address + 4 * i), "l"(x + i), "r"(left > i ? 4 : 0));
}

__device__ void store4(float* X, int row, int col, int rows, int cols, const float* value)
{
    if (row >= rows || col >= cols)
        return;
    float* x = X + (size_t)row * cols + col;
    if (wide(X, cols))
        *(float4*)x = *(const float4*)value;
    else
        for (int i = 0; i < 4; i++)
            if (col + i < cols)
                x[i] = value[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    extern __shared__ __align__(16) float tiles[];
    auto As = (float (*)[BM][BK + 4])tiles;   // four floats of padding: eight rows begin in different banks
    auto Bs = (float (*)[BK][BN])(tiles + STAGES * BM * (BK + 4));
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int r = threadIdx.x / (BN / TN), c = threadIdx.x % (BN / TN) * 4;
    __align__(16) float sum[TM][TN] = {}, a[TM][4], b[TN];

    auto fetch = [&](int k0, int stage) {
        for (int n = 0; n < BM * BK / 4 / THREADS; n++) {   // eight lanes copy down eight rows
            int i = threadIdx.x + n * THREADS, row = i / (2 * BK) * 8 + i % 8, k = i / 8 % (BK / 4) * 4;
            copy4(&As[stage][row][k], A, row0 + row, k0 + k, M, K);
        }
        for (int n = 0; n < BK * BN / 4 / THREADS; n++) {
            int i = threadIdx.x + n * THREADS, k = i / (BN / 4), col = i % (BN / 4) * 4;
            copy4(&Bs[stage][k][col], B, k0 + k, col0 + col, K, N);
        }
        asm volatile("cp.async.commit_group;");
    };

    for (int stage = 0; stage < STAGES - 1; stage++)
        fetch(stage * BK, stage);
    for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage = (stage + 1) % STAGES) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");   // this tile has landed …
        __syncthreads();                                                      // … and so have all threads' parts
        fetch(k0 + (STAGES - 1) * BK, (stage + STAGES - 1) % STAGES);
        #pragma unroll
        for (int k = 0; k < BK; k += 4) {
            for (int i = 0; i < TM; i++)
                *(float4*)a[i] = *(float4*)&As[stage][r + i * (BM / TM)][k];
            #pragma unroll
            for (int l = 0; l < 4; l++) {
                for (int j = 0; j < TN; j += 4)
                    *(float4*)&b[j] = *(float4*)&Bs[stage][k + l][c + j * (BN / TN)];
                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        sum[i][j] += a[i][l] * b[j];
            }
        }
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            store4(C, row0 + r + i * (BM / TM), col0 + c + j * (BN / TN), M, N, &sum[i][j]);
}
