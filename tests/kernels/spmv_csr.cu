extern "C" __global__ void spmv_csr(const int* start, const int* column, const float* value, const float* x, float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float s = 0;
  for (int k = start[row]; k < start[row + 1]; k++) s += value[k] * __ldg(&x[column[k]]);
  y[row] = s;
}
