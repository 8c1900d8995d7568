// The CPU's kernels as a device's, installed for the CPU: the operations then take the branches that a GPU
// takes, on every machine. Linked with the unit tests of model, shard and train, which must pass as they do
// without it.
#include "gpu/branches/cpu_table.h"

namespace echelon::ops {
namespace {

const bool kInstalled = [] {
  install_device_kernels(cpu_table(), at::DeviceType::CPU);
  return true;
}();

}  // namespace
}  // namespace echelon::ops
