#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/read/base_note.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/conversion.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "families/model_family.h"
#include "shapes/lora.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;
using checkpoint::TensorInfo;

/// The tensors of the model, or all others.
std::vector<OutputTensor> tensors_for(const Reader& reader, bool model, families::OutputType type) {
  std::vector<OutputTensor> tensors;
  for (const TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(kModelPrefix) == model) tensors.push_back(whole_tensor(tensor, type));
  }
  return tensors;
}

void plan_hdf5_output(const Reader& reader, const ConsolidateOptions& options, Conversion& conversion) {
  std::vector<OutputTensor> tensors = tensors_for(reader, true, options.dtype);
  if (options.optimizer) {
    const auto rest = tensors_for(reader, false, families::OutputType::kSame);
    tensors.insert(tensors.end(), rest.begin(), rest.end());
  }
  conversion.plan.files.push_back(plan_hdf5(std::move(tensors), reader.step()));
}

void plan_safetensors_output(const Reader& reader, const ConsolidateOptions& options,
                             Conversion& conversion) {
  std::vector<OutputTensor> model = tensors_for(reader, true, options.dtype);
  if (std::ranges::any_of(model, [](const auto& tensor) { return is_adapter(tensor.name); }))
    throw Error(Code::kCheckpoint,
                "the checkpoint has LoRA adapters, which transformers would leave out without a word; use "
                "echelon-ckpt export, with --merge for the whole model");
  add_companions(reader, conversion);
  const families::NameEndings transposed = families::transposed_endings(reader.attachment("config.json"));
  for (OutputTensor& tensor : model) {
    tensor.name.erase(0, kModelPrefix.size());
    tensor.transposed = tensor.source.shape.size() == 2 && families::has_ending(tensor.name, transposed);
  }
  state_type(model, conversion);
  add_safetensors(std::move(model), "model", options.max_shard_size, conversion);
  if (options.optimizer) {
    add_safetensors(tensors_for(reader, false, families::OutputType::kSame), "optimizer",
                    options.max_shard_size, conversion);
  }
}

}  // namespace

void consolidate(const ConsolidateOptions& options) {
  const bool hdf5 = options.to == families::OutputFormat::kHdf5;
  if (hdf5 && options.max_shard_size)
    throw Error(Code::kUsage, "--to hdf5 makes one file; remove --max-shard-size, or use --to safetensors");
  const checkpoint::LeasedReader leased(options.checkpoint);
  const Reader& reader = leased.reader;
  if (tensors_for(reader, true, options.dtype).empty())
    throw Error(Code::kCheckpoint, "the checkpoint holds no tensor under 'model/'");
  Conversion conversion{.doing = "consolidating",
                        .options = str("consolidate ", word_of(options.to), ' ', word_of(options.dtype),
                                       options.optimizer ? " optimizer" : ""),
                        .output = options.output};
  hdf5 ? plan_hdf5_output(reader, options, conversion) : plan_safetensors_output(reader, options, conversion);
  convert_checkpoint(reader, conversion, options.limits);
  std::cout << "wrote '" << options.output.string() << "' from step " << reader.step() << '\n';
  if (const auto base = checkpoint::base_note_of(reader))
    std::cout << "note: " << base->tensors.size() << " tensors of the base are not in it; they are in '"
              << base->folder << "'\n";
  if (!hdf5 && !has_tokenizer(conversion))
    std::cout << "note: the checkpoint holds no tokenizer, so the folder has none\n";
}

}  // namespace echelon::tool
