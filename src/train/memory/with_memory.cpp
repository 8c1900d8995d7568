#include "train/memory/with_memory.h"

namespace echelon {

std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options, const RunFolder& folder,
                                       const JobInfo& job, Communicator& comm) {
  if (options.memory_every_steps == 0) return nullptr;
  return std::make_unique<RunMemory>(options, folder, job, comm);
}

int train_with(RunMemory* memory, const CheckpointOptions& options,
               const std::map<std::string, std::string>& attachments, const TrainState& state,
               const std::function<int(MemorySaves*)>& body) {
  if (memory == nullptr) return body(nullptr);
  auto saves = std::make_unique<MemorySaves>(options, *memory);
  saves->prepare(state, attachments);
  const int status = body(saves.get());
  saves.reset();
  memory->finish();
  return status;
}

}  // namespace echelon
