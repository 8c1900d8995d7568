#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

/// A device beside the CPU (PyTorch's PrivateUse1) on which code that keeps several streams in order is tried
/// without a GPU. Its memory is the host's, its streams are queues. A copy to or from the host that need not
/// block is done as late as it can be: when something waits for it. Everything else is computed at once, by
/// the CPU, after what its stream had before. Every access is compared with those before it: one that was not
/// waited for is a finding, also where the values came out right.
namespace echelon::test::deferred {

/// The device; registered with PyTorch by the first call.
[[nodiscard]] at::Device device();

/// Bytes that an operation reads or writes.
struct Access {
  const void* begin;
  std::size_t bytes;
  bool writes;
};
/// Gives `stream` an operation that is done at once, after all that the stream had before.
void compute(c10::Stream stream, const std::string& what, const std::vector<Access>& accesses,
             const std::function<void()>& body);

/// Of the calling thread.
[[nodiscard]] c10::Stream current_stream();
/// One that nobody else has.
[[nodiscard]] c10::Stream new_stream();

[[nodiscard]] Access reads(const at::Tensor& tensor);
[[nodiscard]] Access writes(const at::Tensor& tensor);
/// A CPU tensor over the same bytes; of a CPU tensor itself.
[[nodiscard]] at::Tensor on_host(const at::Tensor& tensor);

/// Forgets what was seen. From now on the calls from one place of Seen::places do nothing. No tensor of the
/// device lives.
void restart(const std::string& left_out = "");

struct Seen {
  std::vector<std::string> findings;  ///< each once
  /// Where the code tried puts streams and the host in order: "a stream waits", "the host waits" or "a stream
  /// is told of memory", and the function.
  std::vector<std::string> places;
  std::set<std::string> operations;  ///< of PyTorch's: "aten::index_add.out"
};
/// Since restart(). Lets all streams end first.
[[nodiscard]] Seen seen();

/// Since restart(): copies that blocked the host, and values that it asked for.
[[nodiscard]] int host_waits();

/// The CPU's kernels serve the device's tensors from now on.
void install_kernels();

}  // namespace echelon::test::deferred
