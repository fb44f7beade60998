extern "C" __global__ void integers(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = a[i], y = b[i], r = 0;
  r ^= __popc(x) + __clz(y) * 3 + __ffs(x) * 5;
  r ^= __brev(x) ^ __byte_perm(x, y, 0x3175) ^ __funnelshift_l(x, y, x & 31) ^ __funnelshift_r(x, y, 7);
  r += __umulhi(x, y) ^ __mulhi((int)x, (int)y);
  r += x / (y | 1) + x % (y | 1) + (unsigned)((int)x / (int)(y | 1)) + (unsigned)((int)x % (int)(y | 1));
  unsigned long long w = (unsigned long long)x * y + 12345;
  r ^= (unsigned)(w / (x | 1)) + (unsigned)(w >> 33) + (unsigned)__umul64hi(w, w << 7);
  r += min((int)x, (int)y) ^ max(x, y) ^ abs((int)x);
  out[i] = r;
}
