#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/base_note.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "checkpoints_tool/convert/new_checkpoint.h"
#include "checkpoints_tool/convert/tensor_source.h"
#include "checkpoints_tool/lora/peft_config.h"
#include "checkpoints_tool/progress.h"
#include "families/base_weights.h"
#include "families/convert.h"
#include "families/hugging_face_files.h"
#include "shapes/lora.h"

namespace echelon::tool {
namespace {

using checkpoint::TensorInfo;
using families::BaseWeights;

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;
const std::string kWeights = "adapter_model.safetensors";

/// The model that the adapter belongs to: its config.json and the files beside it.
struct BaseModel {
  std::string config;
  std::map<std::string, std::string> files;
  families::ModelDescription description;
};

families::HasTensor tensors_in(const BaseWeights& base) {
  return [&base](const std::string& name) { return base.find(str(kModelPrefix, name)) != nullptr; };
}

BaseModel model_of(const BaseWeights& base) {
  if (const families::ModelWeights* weights = base.weights())
    return {weights->config(), families::companions_of(weights->folder()), weights->model()};
  const checkpoint::Reader& reader = *base.checkpoint();
  check_has_config(reader);
  BaseModel model{.config = reader.attachment("config.json")};
  for (const std::string& name : reader.attachments()) {
    if (checkpoint::is_companion_file(name)) model.files[name] = reader.attachment(name);
  }
  model.description =
      families::describe_model(model.config, "config.json", families::Purpose::kImport, tensors_in(base));
  return model;
}

/// An adapter of peft that fits a base.
class PeftAdapter {
 public:
  PeftAdapter(const Path& folder, const BaseWeights& base, const families::ModelDescription& description)
      : folder_(folder),
        base_(base),
        model_(description.options),
        config_(read_config()),
        source_(weights_file()) {
    if (!source_.absent().empty())
      refuse(str("its index lists tensor '", source_.absent().front(), "', which no file holds"));
    read_modules();
    for (const LoraFault& fault : lora_faults(model_, lora_)) refuse(fault.text);
    check_shared(description);
    match();
    check_targets();
    // As a recipe would name them.
    lora_.also_train = modules_trained_whole(model_, lora_);
    if (adapted_matrices(model_, lora_).size() == adapted_matrices(model_, {.rank = lora_.rank}).size())
      lora_.modules.clear();
    else
      lora_.modules = target_modules(model_, lora_);
  }

  /// modules: none where all matrices have an adapter.
  [[nodiscard]] const LoraOptions& lora() const { return lora_; }
  /// The file, as it is.
  [[nodiscard]] const std::string& config_text() const { return text_; }
  /// The adapter's tensors by the names of a checkpoint, in the type of the file.
  [[nodiscard]] const std::map<std::string, const families::SourceTensor*>& tensors() const {
    return tensors_;
  }
  void read(const families::SourceTensor& tensor, std::uint64_t at, std::span<std::byte> to) const {
    source_.read(tensor, at, to);
  }
  void check_unchanged() const { source_.check_unchanged(); }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(Code::kCheckpoint, "cannot import '", folder_.string(), "': ", problem);
  }

  PeftConfig read_config() {
    const Path file = folder_ / kAdapterConfig;
    if (!checkpoint::entry_exists(file))
      throw Error(Code::kUsage, "cannot import '", folder_.string(), "': it has no ", kAdapterConfig,
                  "; expected peft's folder of an adapter");
    text_ = checkpoint::read_input(file, kMaxConfigBytes);
    return lora_of_peft(text_, str('\'', file.string(), '\''));
  }

  [[nodiscard]] Path weights_file() const {
    if (checkpoint::entry_exists(folder_ / kWeights)) return folder_ / kWeights;
    refuse(str("it has no ", kWeights,
               "; save the adapter again with peft's save_pretrained, whose default that is"));
  }

  /// The modules with an adapter are those whose A the file has.
  void read_modules() {
    lora_ = config_.lora;
    lora_.modules.clear();
    for (const auto& [name, tensor] : source_.tensors()) {
      if (!name.starts_with(kPeftPrefix))
        refuse(str("tensor '", printable(name), "' does not begin with ", kPeftPrefix));
      const std::string own = name.substr(kPeftPrefix.size());
      tensors_[str(kModelPrefix, own)] = &tensor;
      const std::string module(module_of(module_of(own)));
      if (own == adapter_a(module)) lora_.modules.push_back(module);
    }
    if (lora_.modules.empty()) refuse(str(kWeights, " holds no adapter"));
  }

  /// Refuses a module trained whole whose weight is also the head: peft trains a copy of one of the two.
  void check_shared(const families::ModelDescription& description) const {
    for (const TensorInfo& tensor : description.tensors) {
      if (is_trained(lora_, tensor.name) && description.is_shared(tensor.name, tensors_in(base_)))
        refuse(str("modules_to_save names '", module_of(tensor.name),
                   "', whose weight is also the head, of which peft keeps the base's; merge the adapter with "
                   "peft and import the model"));
    }
  }

  /// The file has every tensor that the base, the rank and the modules ask for, and no other.
  void match() const {
    std::set<std::string> expected;
    for (const TensorShape& shape : tensors_of(model_, lora_)) {
      if (!is_trained(lora_, shape.name)) continue;
      const std::string name = str(kModelPrefix, shape.name);
      expected.insert(name);
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) refuse(str("it lacks tensor '", kPeftPrefix, shape.name, "'"));
      const TensorInfo& info = found->second->info;
      if (info.shape == shape.dimensions && families::is_floating(info.dtype)) continue;
      refuse(str("tensor '", info.name, "' is ", name_of(info.dtype), ' ', checkpoint::shape_text(info.shape),
                 "; base '", base_.folder(), "' and rank ", lora_.rank,
                 " need floating-point numbers of shape ", checkpoint::shape_text(shape.dimensions),
                 ": it is the adapter of another base, or its config of another adapter"));
    }
    for (const auto& [name, tensor] : tensors_) {
      if (!expected.contains(name))
        refuse(str("tensor '", printable(tensor->info.name), "' belongs to no adapter and to no module of ",
                   "modules_to_save in the model of base '", base_.folder(), "'"));
    }
  }

  /// Checks that exactly the modules of target_modules have an adapter.
  void check_targets() const {
    if (!config_.lists_modules) return;
    const LoraOptions listed{.rank = lora_.rank, .modules = config_.lora.modules};
    const std::vector<AdaptedMatrix> wanted = adapted_matrices(model_, listed);
    for (const AdaptedMatrix& matrix : wanted) {
      if (std::ranges::find(lora_.modules, matrix.module) == lora_.modules.end())
        refuse(str("target_modules names '", matrix.module, "', but ", kWeights, " has no adapter of it"));
    }
    if (wanted.size() != lora_.modules.size())
      refuse(str(kWeights, " has ", lora_.modules.size(), " adapters, but target_modules names ",
                 wanted.size(), " matrices"));
  }

  Path folder_;
  const BaseWeights& base_;
  const ModelOptions& model_;
  std::string text_;
  PeftConfig config_;
  families::WeightSource source_;
  LoraOptions lora_;
  std::map<std::string, const families::SourceTensor*> tensors_;
};

/// The section `lora` of a recipe.
std::string section_of(const LoraOptions& lora) {
  const auto list = [](const char* key, const std::vector<std::string>& names) {
    return names.empty() ? std::string() : str("  ", key, ": [", join(names, ", "), "]\n");
  };
  return str("lora:\n  rank: ", lora.rank, "\n  alpha: ", families::number_text(lora.alpha),
             lora.use_rslora ? "\n  use_rslora: true" : "",
             "\n  dropout: ", families::number_text(lora.dropout), '\n', list("modules", lora.modules),
             list("also_train", lora.also_train));
}

/// Names every weight that the adapter does not hold, in the type that runs will read it as.
checkpoint::BaseNote note_of(const BaseWeights& base, const PeftAdapter& adapter,
                             const std::vector<TensorInfo>& model, families::OutputType dtype) {
  checkpoint::BaseNote note = base.place();
  Progress progress("reading the base", "tensors");
  for (const TensorInfo& weight : model) {
    const std::string name = str(kModelPrefix, weight.name);
    if (!adapter.tensors().contains(name)) note.tensors.push_back({{name, DType::kF32, weight.shape}});
  }
  std::ranges::sort(note.tensors, [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  std::uint64_t done = 0;
  for (checkpoint::BaseNote::Tensor& tensor : note.tensors) {
    const TensorInfo* stored = base.find(tensor.info.name);
    if (stored == nullptr || stored->shape != tensor.info.shape)
      throw Error(Code::kCheckpoint, "base '", base.folder(), "' has no tensor '", tensor.info.name,
                  "' of shape ", checkpoint::shape_text(tensor.info.shape),
                  ", which the model in its config.json has");
    if (families::converted(stored->dtype, dtype) == DType::kBF16) tensor.info.dtype = DType::kBF16;
    tensor.fingerprint = digest_of(base, tensor.info).fingerprint;
    progress.show(++done, note.tensors.size());
  }
  return note;
}

void require_no_adapters(const BaseWeights& base) {
  if (base.weights() != nullptr) return;
  const auto& all = base.checkpoint()->tensors();
  if (std::ranges::none_of(all, [](const TensorInfo& tensor) { return is_adapter(tensor.name); })) return;
  throw Error(Code::kCheckpoint, "base '", base.folder(),
              "' has adapters of its own; name what they were trained on, or merge them first "
              "(echelon-ckpt export --merge)");
}

}  // namespace

void import_adapter(const ImportOptions& options) {
  const BaseWeights base(options.base);
  require_no_adapters(base);
  BaseModel model = model_of(base);
  const PeftAdapter adapter(options.input, base, model.description);
  checkpoint::CommitInfo info{.step = 0,
                              .ranks = options.world,
                              .trainer_state = R"({"imported":{"from":"peft","optimizer":false}})",
                              .attachments = std::move(model.files)};
  std::vector<const families::SourceTensor*> sources;
  for (const auto& [name, tensor] : adapter.tensors()) {
    info.tensors.push_back(
        {name, families::converted(tensor->info.dtype, options.dtype), tensor->info.shape});
    sources.push_back(tensor);
  }
  const std::string section = section_of(adapter.lora());
  info.attachments["config.json"] =
      families::config_with_members(model.config, model.description.config_members);
  info.attachments["recipe.yaml"] = str(model.description.whole_recipe(), section);
  info.attachments[std::string(kAdapterConfig)] = adapter.config_text();
  info.attachments[std::string(checkpoint::kBaseFile)] =
      note_of(base, adapter, model.description.tensors, options.dtype).text();
  model.description.tell_of_training();
  const std::vector<TensorInfo> targets = info.tensors;
  const auto fill = [&](std::size_t tensor, std::uint64_t begin, std::uint64_t at, std::span<std::byte> to) {
    const DType stored = sources[tensor]->info.dtype;
    const std::uint64_t size = size_of(targets[tensor].dtype);
    std::vector<std::byte> raw(to.size() / size * size_of(stored));
    adapter.read(*sources[tensor], (begin + at / size) * size_of(stored), raw);
    families::convert(raw, stored, to, targets[tensor].dtype);
  };
  const Path folder = write_new_checkpoint(options.output, options.input, std::move(info), "importing", fill,
                                           [&](const Path&) { adapter.check_unchanged(); });
  std::cout << "imported " << targets.size() << " tensors of an adapter into '" << folder.string()
            << "'; its base stays in '" << base.folder() << "'; the recipe's sections for this model:\n"
            << model.description.recipe << section;
}

}  // namespace echelon::tool
