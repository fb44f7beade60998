extern "C" __global__ void branches(const int* a, int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = a[i], r;
  switch (v & 7) {
    case 0: r = v * 3; break;
    case 1: r = v / 7; break;
    case 2: r = v % 13; break;
    case 3: r = v << 3; break;
    case 4: r = v >> 2; break;
    case 5: r = ~v; break;
    case 6: for (r = 0; v > 0; v >>= 1) r += v & 1; break;
    default: r = -v;
  }
  b[i] = r;
}
