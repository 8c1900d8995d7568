#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/format/names.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "comm/local_communicator.h"
#include "data/loader.h"
#include "optim/optimizer.h"
#include "run/run_folder.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"
#include "unit/train/small_model.h"

namespace echelon::test {

/// The state of a run of one rank, whose optimizer has no state unless another is named, and its folder.
struct SmallRun {
  explicit SmallRun(const std::filesystem::path& root, const LoraOptions& lora = {}, std::uint64_t seed = 3,
                    const OptimOptions& optimizer = {.kind = OptimKind::kSgd})
      : folder(root, false),
        model(build_model(small_options(), at::kFloat, at::kCPU, lora), comm, {}, seed, at::kCPU),
        optim(std::make_unique<Optimizer>(optimizer, model)),
        data(make_loader({.kind = DataKind::kSyntheticTokens, .seq_len = 4}, 13, 1)),
        state{.model = model, .optim = *optim, .data = *data} {}

  /// A checkpoint of the state as if it were of `step`, with `trainer_state` in place of its own unless that
  /// is empty.
  std::filesystem::path save(std::int64_t step, std::string trainer_state = "") {
    state.step = step;
    state.position.next_sample = 8 * step;
    if (trainer_state.empty()) trainer_state = trainer_state_json(state, 1);
    const std::string id = checkpoint::new_save_id();
    const auto step_folder = folder.checkpoints() / checkpoint::step_folder_name(step, id);
    std::filesystem::create_directories(step_folder);
    checkpoint::write_shard(step_folder, 0, 1, id, slices_of(state));
    checkpoint::CommitInfo info{
        .step = step, .save_id = id, .tensors = global_tensors(state), .trainer_state = trainer_state};
    if (state.base) info.attachments[std::string(checkpoint::kBaseFile)] = state.base->text();
    checkpoint::commit(step_folder, info);
    return step_folder;
  }

  LocalCommunicator comm;
  RunFolder folder;
  ShardedModel model;
  std::unique_ptr<Optimizer> optim;
  std::unique_ptr<Loader> data;
  TrainState state;
};

}  // namespace echelon::test
