#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "train/memory/memory_saves.h"
#include "train/memory/run_memory.h"

namespace echelon {

/// The memory of the nodes; null if nothing is saved there. Collective.
[[nodiscard]] inline std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options,
                                                            const RunFolder& folder, const JobInfo& job,
                                                            Communicator& comm) {
  if (options.memory_every_steps == 0) return nullptr;
  return std::make_unique<RunMemory>(options, folder, job, comm);
}

/// Returns `body(saves)`, which trains with saves to `memory` (null: none). Afterwards nothing stays there,
/// unless a peer was lost, or no step was trained: then the next start may need it. Collective.
template <class Body>
int train_with(RunMemory* memory, const CheckpointOptions& options,
               const std::map<std::string, std::string>& attachments, const TrainState& state, Body&& body) {
  if (memory == nullptr) return body(static_cast<MemorySaves*>(nullptr));
  auto saves = std::make_unique<MemorySaves>(options, *memory);
  saves->prepare(state, attachments);
  const std::int64_t began = state.step;
  const auto abandon = [&] {
    if (state.step > began) memory->abandon();
  };
  try {
    const int status = std::forward<Body>(body)(saves.get());
    saves.reset();
    memory->finish();
    return status;
  } catch (const Error& e) {
    if (e.code() != Code::kPeer) abandon();
    throw;
  } catch (...) {
    abandon();
    throw;
  }
}

}  // namespace echelon
