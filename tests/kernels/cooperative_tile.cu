#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cooperative_tile(const int* a, int* out) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = a[i];
  for (int k = tile.size() / 2; k; k /= 2) v += tile.shfl_down(v, k);
  tile.sync();
  if (tile.thread_rank() == 0) out[i / 8] = v;
}
