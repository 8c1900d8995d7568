#include "train/memory/memory_run.h"

#include "base/error.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon {

std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options, const RunFolder& folder,
                                       const JobInfo& job, Communicator& comm) {
  if (options.memory_every_steps == 0) return nullptr;
  try {
    return std::make_unique<RunMemory>(options, folder, job, comm);
  } catch (const Error& error) {
    if (error.code() == Code::kPeer || !restarts_in_place()) throw;
    if (!error.is_reported())
      log::warn(str(error.what(),
                    "; until the next start there are no memory checkpoints, those that nodes "
                    "hold are not used or removed, and checkpoints on disk go on"));
    return nullptr;
  }
}

std::unique_ptr<MemorySaves> begin_memory_saves(RunMemory* memory, const CheckpointOptions& options,
                                                const std::map<std::string, std::string>& attachments,
                                                const TrainState& state) {
  if (memory == nullptr) return nullptr;
  auto saves = std::make_unique<MemorySaves>(options, *memory);
  saves->prepare(state, attachments);
  return saves;
}

void finish_memory_saves(std::unique_ptr<MemorySaves> saves, RunMemory* memory) {
  saves.reset();
  if (memory != nullptr) memory->finish();
}

}  // namespace echelon
