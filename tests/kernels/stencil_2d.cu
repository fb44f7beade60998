extern "C" __global__ void stencil_2d(const double* a, double* b, int rows, int columns) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x > 0 && y > 0 && x < columns - 1 && y < rows - 1)
    b[y * columns + x] = 0.25 * (a[y * columns + x - 1] + a[y * columns + x + 1] + a[(y - 1) * columns + x] + a[(y + 1) * columns + x]);
}
