// FP32 matrix product, rung 6: 16 bytes an access. Rows of A and B are read, and rows of C written, four
// floats at a time. A is turned while it is stored, so that a thread's rows lie side by side in shared memory
// and are read four at a time too. Four floats of padding put the turned stores into 32 different banks.
#ifndef BM
#define BM 128  // rows and columns of C that a block computes, and the depth of its tiles
#define BN 128
#define BK 8
#define TM 8    // rows and columns of C that a thread computes, in groups of four
#define TN 8
#endif
#define THREADS (BM / TM * (BN / TN))

// Whether rows of `cols` floats can be accessed 16 bytes at a time.
__device__ bool wide(const float* X, int cols) { return cols % 4 == 0 && (size_t)X % 16 == 0; }

// Four neighbours of a row; zeros outside the matrix.
__device__ float4 load4(const float* X, int row, int col, int rows, int cols)
{
    if (row >= rows || col >= cols)
        return make_float4(0, 0, 0, 0);
    const float* x = X + (size_t)row * cols + col;
    if (wide(X, cols))
        return *(const float4*)x;
    return make_float4(x[0], col + 1 < cols ? x[1] : 0, col + 2 < cols ? x[2] : 0, col + 3 < cols ? x[3] : 0);
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

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int r = threadIdx.x / (BN / TN) * 4, c = threadIdx.x % (BN / TN) * 4;
    __align__(16) float sum[TM][TN] = {}, a[TM], b[TN];
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK / 4; i += THREADS) {
            int row = i / 2 % BM, k = i / (2 * BM) * 8 + i % 2 * 4;   // two lanes share a sector of a row
            float4 four = load4(A, row0 + row, k0 + k, M, K);
            As[k][row] = four.x, As[k + 1][row] = four.y, As[k + 2][row] = four.z, As[k + 3][row] = four.w;
        }
        for (int i = threadIdx.x; i < BK * BN / 4; i += THREADS) {
            int k = i / (BN / 4), col = i % (BN / 4) * 4;
            *(float4*)&Bs[k][col] = load4(B, k0 + k, col0 + col, K, N);
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a[i] = *(float4*)&As[k][r + i * (BM / TM)];
            for (int j = 0; j < TN; j += 4)
                *(float4*)&b[j] = *(float4*)&Bs[k][c + j * (BN / TN)];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            store4(C, row0 + r + i / 4 * 4 * (BM / TM) + i % 4, col0 + c + j * (BN / TN), M, N, &sum[i][j]);
}
