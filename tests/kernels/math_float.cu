extern "C" __global__ void math_float(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i];
  float* o = out + 12 * i;
  o[0] = sinf(x); o[1] = cosf(x); o[2] = expf(x * 0.1f); o[3] = logf(fabsf(x) + 0.1f);
  o[4] = sqrtf(fabsf(x)); o[5] = tanhf(x); o[6] = powf(fabsf(x), 0.7f); o[7] = atan2f(x, 2.0f);
  o[8] = erff(x); o[9] = fmodf(x, 0.37f); o[10] = rintf(x); o[11] = 1.0f / x;
}
