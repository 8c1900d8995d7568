#pragma once
#include <map>
#include <memory>
#include <string>

#include "train/memory/memory_saves.h"
#include "train/memory/run_memory.h"

namespace echelon {

/// The memory of the nodes; null if nothing is saved there. Collective. A restart in place goes on without
/// it, with a warning, where a node's folder cannot be used: that node may be new to the run. Any other start
/// throws what RunMemory() throws.
[[nodiscard]] std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options,
                                                     const RunFolder& folder, const JobInfo& job,
                                                     Communicator& comm);

/// Begins saves of `state` to `memory`; null if that is null. Collective.
[[nodiscard]] std::unique_ptr<MemorySaves> begin_memory_saves(
    RunMemory* memory, const CheckpointOptions& options,
    const std::map<std::string, std::string>& attachments, const TrainState& state);

/// Ends the saves after the end of the training was committed to disk: nothing stays in `memory` (null:
/// none). Without this call, as after an error, all of it stays: it may be the newest state. Collective.
void finish_memory_saves(std::unique_ptr<MemorySaves> saves, RunMemory* memory);

}  // namespace echelon
