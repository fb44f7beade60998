struct Body { float3 position; float mass; };
struct Settings { int n; float scale; double shift; };
extern "C" __global__ void structs(Body* bodies, Settings s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.n) return;
  Body b = bodies[i];
  b.position.x = b.position.x * s.scale + (float)s.shift;
  b.mass += b.position.y * b.position.z;
  bodies[i] = b;
}
