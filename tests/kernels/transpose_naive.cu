extern "C" __global__ void transpose_naive(const float* a, float* b, int rows, int columns) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < columns && y < rows) b[x * rows + y] = a[y * columns + x];
}
