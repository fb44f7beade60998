__device__ int lock = 0;
extern "C" __global__ void spin_lock(int* total) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      *(volatile int*)total += 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
}
