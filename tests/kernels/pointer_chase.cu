extern "C" __global__ void pointer_chase(const int* next, int* out, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, at = i;
  for (int k = 0; k < steps; k++) at = next[at];
  out[i] = at;
}
