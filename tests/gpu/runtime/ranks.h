#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl_communicator.h"
#include "gpu/stand_in/machine.h"

namespace echelon::test {

/// Ranks as threads on a stand-in machine.
struct Rank {
  stand_in::Machine& machine;
  Job& job;
  ProcessWatch watch;
  cudaStream_t compute;  ///< the rank's current stream
  double timeout_s;
  std::shared_ptr<Communicator> world{};  ///< ends with the rank, after an error with all of them

  [[nodiscard]] std::shared_ptr<Communicator> communicator(CudaMemory memory = driver_memory());
  /// Values of `memory` after what the current stream has queued.
  template <class T>
  [[nodiscard]] std::vector<T> values(const void* memory, std::size_t count) const {
    std::vector<T> values(count);
    copy_out(values.data(), memory, count * sizeof(T));
    return values;
  }

 private:
  void copy_out(void* to, const void* from, std::size_t bytes) const;
};

struct Outcome : stand_in::Report {
  std::vector<std::string> errors;  ///< by rank; "" where it came to its end
  std::vector<bool> back;           ///< by rank: it came back before it was set free
  std::vector<double> seconds_of;   ///< by rank: until its error could be reported
  std::string standstill;           ///< of ranks that did not come back in time; "" where all did

  [[nodiscard]] bool clean() const;
  [[nodiscard]] bool others_back(int than) const;
  /// Everything above that is wrong, a line each.
  [[nodiscard]] std::string text() const;
};

/// Runs `body` as every rank of a machine. Ranks that are not back after `patience_s`, or that hang by their
/// fate when all others are back, are set free with errors. As in a job, a rank that fails is back once its
/// error can be reported, and its communicator goes when the others have ended, too.
[[nodiscard]] Outcome run_ranks(const stand_in::MachineOptions& options, double timeout_s, double patience_s,
                                const std::function<void(Rank&)>& body);

/// What a step of training asks of the communicators, with values that are compared: gathers ahead of their
/// use, gradients of every type in groups of a hybrid strategy, norms, blobs, barriers. Throws
/// Error(kTraining) where a value is wrong.
void train_in_small(Rank& rank);

}  // namespace echelon::test
