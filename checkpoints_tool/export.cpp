#include <algorithm>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/read/contents.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/convert.h"
#include "checkpoints_tool/families/hugging_face_files.h"
#include "checkpoints_tool/families/hugging_face_folder.h"
#include "checkpoints_tool/families/model_family.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;
using checkpoint::TensorInfo;

[[noreturn]] void refuse(const Reader& reader, const std::string& problem) {
  throw Error(Code::kCheckpoint, str("cannot export '", reader.folder().string(), "': ", problem));
}

/// One parameter of the model, as stored in the checkpoint, to be exported.
OutputTensor parameter(const Reader& reader, const TensorInfo& wanted, const ModelDescription& model,
                       std::string_view prefix, OutputType dtype) {
  const TensorInfo* stored = reader.find(std::string(prefix) + wanted.name);
  // What was frozen has no average, because it is its own.
  if (stored == nullptr) stored = reader.find(str(kModelPrefix, wanted.name));
  if (stored == nullptr)
    refuse(reader,
           str("it lacks tensor '", prefix, wanted.name, "', a parameter of the model in its config.json"));
  OutputTensor tensor = whole_tensor(*stored);
  tensor.name = wanted.name;
  tensor.transposed = has_ending(wanted.name, model.transposed);
  if (tensor.transposed && stored->shape.size() != 2)
    refuse(reader, str("tensor '", stored->name, "' is not a matrix"));
  if (tensor.shape() != wanted.shape) {
    refuse(reader,
           str("tensor '", stored->name, "' would be exported as ", checkpoint::shape_text(tensor.shape()),
               "; the model in its config.json expects ", checkpoint::shape_text(wanted.shape)));
  }
  if (is_floating(stored->dtype)) tensor.dtype = converted(stored->dtype, dtype);
  return tensor;
}

/// Every parameter of the model in the model's own order; there must be no other under `prefix`.
std::vector<OutputTensor> parameters(const Reader& reader, const ModelDescription& model,
                                     std::string_view prefix, OutputType dtype) {
  std::vector<OutputTensor> tensors;
  std::set<std::string> expected;
  for (const TensorInfo& wanted : model.tensors) {
    tensors.push_back(parameter(reader, wanted, model, prefix, dtype));
    expected.insert(tensors.back().source.name);
  }
  for (const TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(prefix) && expected.count(tensor.name) == 0)
      refuse(reader, str("tensor '", tensor.name, "' is not a parameter of the model in its config.json"));
  }
  return tensors;
}

void check_has_averages(const Reader& reader) {
  const auto& tensors = reader.tensors();
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const TensorInfo& tensor) { return tensor.name.starts_with(kAveragedPrefix); })) {
    return;
  }
  refuse(reader, "it has no averaged weights; remove --ema");
}

}  // namespace

void export_weights(const ExportOptions& options) {
  const checkpoint::LeasedReader leased(options.checkpoint);
  const Reader& reader = leased.reader;
  check_has_config(reader);
  if (options.ema) check_has_averages(reader);
  const ModelDescription model = describe_model(
      reader.attachment("config.json"), "config.json", Purpose::kExport,
      [&](const std::string& name) { return reader.find(str(kModelPrefix, name)) != nullptr; });
  Conversion conversion{.doing = "exporting",
                        .options = str("export ", word_of(options.dtype), options.ema ? " ema" : ""),
                        .output = options.output};
  add_companions(reader, options.dtype, conversion);
  conversion.texts["config.json"] =
      config_with_members(conversion.texts["config.json"], model.config_members);
  add_safetensors(parameters(reader, model, options.ema ? kAveragedPrefix : kModelPrefix, options.dtype),
                  "model", options.max_shard_size, conversion);
  convert_checkpoint(reader, conversion, options.limits);
  std::cout << "wrote '" << options.output.string() << "', a " << word_of(model.kind) << " of step "
            << reader.step() << '\n';
  if (!has_tokenizer(conversion))
    std::cout << "note: the checkpoint holds no tokenizer, so the folder has none\n";
}

}  // namespace echelon::tool
