#include <algorithm>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "checkpoints_tool/lora/adapters.h"
#include "families/hugging_face_files.h"
#include "families/model_family.h"
#include "shapes/lora.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;
using checkpoint::TensorInfo;

/// peft reads an adapter from one file.
const std::string kNeverSplit = "1000000GB";

[[noreturn]] void refuse(const Reader& reader, const std::string& problem) {
  throw Error(Code::kCheckpoint, "cannot export '", reader.folder().string(), "': ", problem);
}

/// One parameter of the model, as stored in the checkpoint, to be exported.
OutputTensor parameter(const TensorSource& source, const TensorInfo& wanted,
                       const families::ModelDescription& model, std::string_view prefix,
                       families::OutputType dtype) {
  const Reader& reader = source.reader();
  const TensorInfo* stored = stored_as(source, wanted.name, prefix);
  if (stored == nullptr)
    refuse(reader,
           str("it lacks tensor '", prefix, wanted.name, "', a parameter of the model in its config.json"));
  OutputTensor tensor = whole_tensor(*stored, dtype);
  tensor.name = wanted.name;
  tensor.transposed = families::has_ending(wanted.name, model.transposed);
  if (tensor.transposed && stored->shape.size() != 2)
    refuse(reader, str("tensor '", stored->name, "' is not a matrix"));
  if (tensor.shape() != wanted.shape) {
    refuse(reader,
           str("tensor '", stored->name, "' would be exported as ", checkpoint::shape_text(tensor.shape()),
               "; the model in its config.json expects ", checkpoint::shape_text(wanted.shape)));
  }
  return tensor;
}

/// Every parameter of the model in the model's own order, with what adapters add to it; there must be no
/// other under `prefix`.
std::vector<OutputTensor> parameters(const TensorSource& source, const families::ModelDescription& model,
                                     const Adapters& adapters, std::string_view prefix,
                                     families::OutputType dtype) {
  const Reader& reader = source.reader();
  std::vector<OutputTensor> tensors;
  std::set<std::string> expected;
  for (const TensorInfo& wanted : model.tensors) {
    tensors.push_back(parameter(source, wanted, model, prefix, dtype));
    OutputTensor& tensor = tensors.back();
    expected.insert(tensor.source.name);
    tensor.added = adapters.of(wanted, prefix);
    if (!tensor.added) continue;
    if (tensor.transposed) refuse(reader, str("'", wanted.name, "' can have no adapter in this model"));
    expected.insert(tensor.added->a.name);
    expected.insert(tensor.added->b.name);
  }
  for (const TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(prefix) && expected.count(tensor.name) == 0)
      refuse(reader, str("tensor '", tensor.name, "' is not a parameter of the model in its config.json"));
  }
  return tensors;
}

void check_has_averages(const Reader& reader) {
  const auto& tensors = reader.tensors();
  if (std::ranges::any_of(
          tensors, [](const TensorInfo& tensor) { return tensor.name.starts_with(kAveragedPrefix); })) {
    return;
  }
  refuse(reader, "it has no averaged weights; remove --ema");
}

/// A checkpoint that leaves its base out holds what was trained, all of which belongs to the adapter.
void check_all_wanted(const Reader& reader, const std::vector<TensorInfo>& wanted) {
  std::set<std::string> names;
  for (const TensorInfo& tensor : wanted) names.insert(str(kModelPrefix, tensor.name));
  for (const TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(kModelPrefix) && !names.contains(tensor.name))
      refuse(reader,
             str("tensor '", tensor.name, "' is no adapter, and no module that modules_to_save in its ",
                 kAdapterConfig, " names; export the whole model with --merge"));
  }
}

/// The tensors that peft saves: every A and B, and the modules that were trained whole.
std::vector<OutputTensor> adapter_tensors(const TensorSource& source, const families::ModelDescription& model,
                                          const Adapters& adapters, std::string_view prefix,
                                          families::OutputType dtype) {
  const Reader& reader = source.reader();
  const auto has = [&](const std::string& name) { return source.find(str(kModelPrefix, name)) != nullptr; };
  std::vector<TensorInfo> wanted = adapters.tensors();
  for (const TensorInfo& tensor : model.tensors) {
    if (!is_trained(adapters.lora(), tensor.name)) continue;
    if (model.is_shared(tensor.name, has))
      refuse(reader, str("'", tensor.name,
                         "' was trained whole and is also the head, of which peft would load "
                         "a copy; use --merge"));
    wanted.push_back(tensor);
  }
  if (source.has_base()) check_all_wanted(reader, wanted);
  std::vector<OutputTensor> tensors;
  for (const TensorInfo& one : wanted) {
    const TensorInfo* stored = stored_as(source, one.name, prefix);
    if (stored == nullptr) refuse(reader, str("it lacks tensor '", prefix, one.name, "'"));
    tensors.push_back(whole_tensor(*stored, dtype));
    tensors.back().name = "base_model.model." + one.name;
  }
  return tensors;
}

/// The files of an adapter: peft's two, and those of the tokenizer.
void add_adapter_files(const Reader& reader, const ExportOptions& options, Conversion& conversion) {
  add_companions(reader, conversion);
  for (const char* of_model : {"config.json", "generation_config.json"}) conversion.texts.erase(of_model);
  const std::string name(kAdapterConfig);
  conversion.texts[name] = config_with_base(reader.attachment(name), options.base);
}

void check_options(const Reader& reader, const ExportOptions& options, const Adapters& adapters) {
  if (options.ema) check_has_averages(reader);
  if (options.merge && !adapters.any()) refuse(reader, "it has no adapters to merge; remove --merge");
  if (!options.base.empty() && !adapters.any()) refuse(reader, "it has no adapters; remove --base");
  if (options.max_shard_size && adapters.any() && !options.merge)
    throw Error(Code::kUsage, "cannot export '", reader.folder().string(),
                "': the file of an adapter is never split; remove --max-shard-size, or add --merge");
}

}  // namespace

void export_weights(const ExportOptions& options) {
  const checkpoint::LeasedReader leased(options.checkpoint);
  const Reader& reader = leased.reader;
  check_has_config(reader);
  TensorSource source(reader, checkpoint::base_note_of(reader));
  const Adapters adapters(reader);
  check_options(reader, options, adapters);
  const std::string prefix(options.ema ? kAveragedPrefix : kModelPrefix);
  if (adapters.any()) adapters.require_trained(prefix);
  const bool only_adapter = adapters.any() && !options.merge;
  const families::ModelDescription model = families::describe_model(
      reader.attachment("config.json"), "config.json", families::Purpose::kExport,
      [&](const std::string& name) { return source.find(str(kModelPrefix, name)) != nullptr; });
  Conversion conversion{.doing = "exporting",
                        .options = str("export ", word_of(options.dtype), options.ema ? " ema" : "",
                                       options.merge ? " merge" : ""),
                        .output = options.output};
  if (only_adapter) {
    add_adapter_files(reader, options, conversion);
    add_safetensors(adapter_tensors(source, model, adapters, prefix, options.dtype), "adapter_model",
                    kNeverSplit, conversion);
  } else {
    source.open_base(options.base);
    add_companions(reader, conversion);
    conversion.texts["config.json"] =
        families::config_with_members(conversion.texts["config.json"], model.config_members);
    std::vector<OutputTensor> tensors = parameters(source, model, adapters, prefix, options.dtype);
    state_type(tensors, conversion);
    add_safetensors(std::move(tensors), "model", options.max_shard_size, conversion);
  }
  convert_checkpoint(source, conversion, options.limits);
  std::cout << "wrote '" << options.output.string() << "', " << (only_adapter ? "the adapter of a " : "a ")
            << word_of(model.kind) << " of step " << reader.step() << '\n';
  if (!has_tokenizer(conversion))
    std::cout << "note: the checkpoint holds no tokenizer, so the folder has none\n";
}

}  // namespace echelon::tool
