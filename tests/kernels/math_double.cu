extern "C" __global__ void math_double(const double* a, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = a[i];
  double* o = out + 8 * i;
  o[0] = sin(x); o[1] = exp(x * 0.1); o[2] = log(fabs(x) + 0.1); o[3] = sqrt(fabs(x));
  o[4] = pow(fabs(x), 1.3); o[5] = fma(x, x, -1.0); o[6] = x / 3.0; o[7] = floor(x) + cbrt(x);
}
