extern "C" __global__ void local_array(const int* a, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int heap[16];
  for (int k = 0; k < 16; k++) heap[k] = a[i * 16 + k];
  for (int k = 1; k < 16; k++) {
    int v = heap[k], j = k;
    while (j > 0 && heap[j - 1] > v) {
      heap[j] = heap[j - 1];
      j--;
    }
    heap[j] = v;
  }
  out[i] = heap[8];
}
