#pragma once
#include <map>
#include <string>
#include <vector>

/// The peaks of devices and networks, and the fractions of them that are reached: the data behind `echelon
/// plan`. The profiles of data/devices.json and data/networks.json are compiled into the library, each number
/// with its source. Users write their own as files of the same shape with a "name".
namespace echelon::forecast {

/// One direction of a connection. Moving n bytes takes n / (bytes_per_s * achieved).
struct Link {
  double bytes_per_s = 0;  ///< of the data sheet
  double achieved = 0;     ///< fraction that NCCL's bus bandwidth reaches with large messages
  /// Added by each step of a ring, in which every rank passes a block on to the next: all_gather and
  /// reduce_scatter of n ranks have n - 1 steps, one of them between nodes for each node but the first.
  double latency_s = 0;
};

struct Network {
  std::string name;
  std::string title;
  Link link;
  bool per_node = false;  ///< the rate is shared by the node's GPUs; else each GPU has it
};

/// One GPU with its connections.
struct Device {
  std::string name;
  std::string title;
  bool compiled_in = false;  ///< else read from a file
  double memory_bytes = 0;   ///< total that CUDA shows
  double memory_bytes_per_s = 0;
  /// FLOP/s without sparsity of bf16, fp16, tf32 and fp32: always all four; and of fp8, where it has that.
  std::map<std::string, double> flops;
  /// Fractions of `flops` and, last, of `memory_bytes_per_s`.
  struct Achieved {
    double product = 0;  ///< large matrix products
    /// Fractions for the attention that libtorch 2.11 chooses for bf16: cuDNN's on Hopper and Blackwell,
    /// FlashAttention-2 elsewhere. Heads of 128 elements. Operations that a causal mask removes do not count.
    double attention_forward = 0;
    double attention_backward = 0;
    double memory = 0;  ///< element-wise kernels
  } achieved;
  double kernel_s = 0;          ///< least time of a kernel, with the gap to the next
  double launch_s = 0;          ///< of the host, to issue one operation through libtorch
  double collective_share = 0;  ///< of the device's multiprocessors that a collective between nodes occupies
  double context_bytes = 0;     ///< of one rank, outside of PyTorch's allocator: CUDA, its libraries, NCCL
  Link peer;                    ///< to the other GPUs of the node: NVLink, or PCIe
  Link host;                    ///< page-locked copies; without a latency
};

/// The files of src/forecast/data/, compiled into the library: an object of profiles by name each. Internal.
extern const char kDevicesJson[];
extern const char kNetworksJson[];

/// Names of the profiles compiled in, sorted.
[[nodiscard]] std::vector<std::string> device_names();
[[nodiscard]] std::vector<std::string> network_names();

/// The profile of a GPU as CUDA or Slurm names it: "h200" of "NVIDIA H200", "h100" of
/// "nvidia_h100_80gb_hbm3", "a100-40g" of "NVIDIA A100-SXM4-40GB". Empty if there is none, as for the slower
/// cards on PCIe, or if the name lacks a size of memory that tells profiles apart.
[[nodiscard]] std::string device_of_gpu(const std::string& name);

/// Returns a profile by its name, in capital letters too, or from a file: a text that contains '/' or ends in
/// ".json". Throws Error(kUsage): an unknown name in one line with those it may mean, an unreadable file, and
/// all faults of a profile, one line each with the full key, what was found and what was expected.
[[nodiscard]] Device find_device(const std::string& name_or_file);
[[nodiscard]] Network find_network(const std::string& name_or_file);

}  // namespace echelon::forecast
