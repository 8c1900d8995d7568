#include <iostream>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/geometry.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "checkpoints_tool/convert/new_checkpoint.h"
#include "checkpoints_tool/progress.h"
#include "families/hugging_face_files.h"
#include "families/model_weights.h"

namespace echelon::tool {
namespace {

/// Reads a stretch of a tensor, in the type it will have.
class Filler {
 public:
  Filler(const families::ModelWeights& weights, const std::vector<checkpoint::TensorInfo>& targets)
      : weights_(weights), targets_(targets), read_(weights) {
    for (const checkpoint::TensorInfo& target : targets)
      total_ += checkpoint::element_count(target) * size_of(target.dtype);
  }

  void operator()(std::size_t tensor, std::uint64_t begin, std::uint64_t at, std::span<std::byte> to) {
    const DType type = targets_[tensor].dtype;
    read_(weights_.weights()[tensor], begin + at / size_of(type), type, to);
    done_ += to.size();
    progress_.show(done_, total_);
  }

  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  const families::ModelWeights& weights_;
  const std::vector<checkpoint::TensorInfo>& targets_;
  families::WeightReader read_;
  Progress progress_{"importing"};
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

/// config.json and the tokenizer, unchanged except for corrections from the model's description; and a
/// recipe.
std::map<std::string, std::string> attachments_of(const families::ModelWeights& weights) {
  std::map<std::string, std::string> files = families::companions_of(weights.folder());
  files["config.json"] = families::config_with_members(weights.config(), weights.model().config_members);
  files["recipe.yaml"] = weights.model().whole_recipe();
  return files;
}

}  // namespace

void import_weights(const ImportOptions& options) {
  if (!options.base.empty()) return import_adapter(options);
  if (checkpoint::entry_exists(options.input / kAdapterConfig))
    throw Error(Code::kUsage, str("'", options.input.string(),
                                  "' holds an adapter of peft; name the base it was trained on with --base"));
  const families::ModelWeights weights(options.input, "cannot import");
  weights.check_tied();
  checkpoint::CommitInfo info{.step = 0,
                              .ranks = options.world,
                              .trainer_state = R"({"imported":{"from":"safetensors","optimizer":false}})",
                              .attachments = attachments_of(weights)};
  for (const families::StoredWeight& weight : weights.weights()) {
    info.tensors.push_back({"model/" + weight.info.name,
                            families::converted(weight.info.dtype, options.dtype), weight.info.shape});
  }
  const std::vector<checkpoint::TensorInfo> targets = info.tensors;
  Path folder;
  std::uint64_t bytes = 0;
  {
    Filler filler(weights, targets);
    bytes = filler.total();
    folder = write_new_checkpoint(options.output, weights.folder(), std::move(info), std::ref(filler),
                                  [&](const Path&) { weights.source().check_unchanged(); });
  }
  std::cout << "imported " << targets.size() << " tensors, " << human_bytes(bytes) << ", into '"
            << folder.string() << "'; the recipe's section for this model:\n"
            << weights.model().recipe;
}

}  // namespace echelon::tool
