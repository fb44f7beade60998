extern "C" __global__ void collatz(const int* a, int* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = a[i];
  int k = 0;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    k++;
  }
  steps[i] = k;
}
