#include <iostream>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/geometry.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "checkpoints_tool/convert/new_checkpoint.h"
#include "families/hugging_face_files.h"
#include "families/model_weights.h"

namespace echelon::tool {
namespace {

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
    throw Error(Code::kUsage, "'", options.input.string(),
                "' holds an adapter of peft; name the base it was trained on with --base");
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
  weights.model().tell_of_training();
  const std::vector<checkpoint::TensorInfo> targets = info.tensors;
  families::WeightReader read(weights);
  const auto fill = [&](std::size_t tensor, std::uint64_t begin, std::uint64_t at, std::span<std::byte> to) {
    const DType type = targets[tensor].dtype;
    read(weights.weights()[tensor], begin + at / size_of(type), type, to);
  };
  const Path folder = write_new_checkpoint(options.output, weights.folder(), std::move(info), "importing",
                                           fill, [&](const Path&) { weights.source().check_unchanged(); });
  std::cout << "imported " << targets.size() << " tensors, " << human_bytes(checkpoint::byte_count(targets))
            << ", into '" << folder.string() << "'; the recipe's section for this model:\n"
            << weights.model().recipe;
}

}  // namespace echelon::tool
