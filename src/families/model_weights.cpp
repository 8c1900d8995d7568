#include "families/model_weights.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/model_name.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "families/convert.h"
#include "families/hugging_face_files.h"

namespace echelon::families {
namespace {

using checkpoint::TensorInfo;
using std::filesystem::path;

constexpr std::uint64_t kReadAtOnce = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;

ModelDescription describe(const std::string& config, const path& folder, const HasTensor& has_tensor) {
  return describe_model(config, str('\'', (folder / "config.json").string(), '\''), Purpose::kImport,
                        has_tensor);
}

}  // namespace

ModelWeights::ModelWeights(const path& input, std::string doing) : doing_(std::move(doing)), source_(input) {
  if (!checkpoint::entry_exists(folder() / "config.json"))
    refuse("config.json, which describes the model, is missing beside the weights");
  config_ = config_of(folder());
  model_ =
      describe(config_, folder(), [&](const std::string& name) { return source_.tensors().contains(name); });
  const auto has_prefix = [&](const auto& tensor) {
    return tensor.first.starts_with(model_.optional_prefix);
  };
  if (std::ranges::none_of(source_.tensors(), has_prefix)) omitted_prefix_ = model_.optional_prefix;
  match_all();
}

void ModelWeights::refuse(const std::string& problem) const {
  throw Error(Code::kCheckpoint, doing_, " '", folder().string(), "': ", problem);
}

std::string ModelWeights::stored_name(const std::string& name) const {
  const bool shorter = !omitted_prefix_.empty() && name.starts_with(omitted_prefix_);
  return shorter ? name.substr(omitted_prefix_.size()) : name;
}

/// The parameter `wanted`, which the files call `name`.
StoredWeight ModelWeights::match(const TensorInfo& wanted, const std::string& name) const {
  const auto found = source_.tensors().find(name);
  if (found == source_.tensors().end())
    refuse(str("tensor '", name, "' ", checkpoint::shape_text(wanted.shape),
               " of config.json's model is missing"));
  const TensorInfo& stored = found->second.info;
  if (stored.shape != wanted.shape)
    refuse(str("tensor '", name, "' has the shape ", checkpoint::shape_text(stored.shape),
               "; config.json requires ", checkpoint::shape_text(wanted.shape)));
  constexpr const char* kExpected = "; a weight must be a floating-point number";
  if (!found->second.other_type.empty())
    refuse(str("tensor '", name, "' has the element type '", found->second.other_type, '\'', kExpected));
  if (!is_floating(stored.dtype)) refuse(str("tensor '", name, "' is ", name_of(stored.dtype), kExpected));
  StoredWeight weight{{wanted.name, stored.dtype, wanted.shape}, &found->second};
  weight.transposed = has_ending(wanted.name, model_.transposed);
  if (weight.transposed) std::swap(weight.info.shape.at(0), weight.info.shape.at(1));
  return weight;
}

/// What AutoModel saves is the model without its head, though its config.json is that of the whole.
void ModelWeights::require_head() const {
  const std::string& head = model_.head;
  const auto is_head = [&](const TensorInfo& tensor) { return tensor.name == head; };
  const bool wanted = std::ranges::any_of(model_.tensors, is_head);
  if (!wanted || model_.copies.contains(head) || source_.tensors().contains(head)) return;
  refuse(
      str("it holds a base model, without the head ('", head,
          "') that predicts tokens, and config.json does not tie the head to the embedding; save the whole "
          "model (AutoModelForCausalLM, not AutoModel), or set tie_word_embeddings to true if they are one"));
}

/// Every parameter of the model, with its shape, and nothing else.
void ModelWeights::match_all() {
  require_head();
  std::set<std::string> known;
  for (const TensorInfo& wanted : model_.tensors) {
    const auto copy = model_.copies.find(wanted.name);
    const std::string name = stored_name(copy == model_.copies.end() ? wanted.name : copy->second);
    places_.emplace(wanted.name, weights_.size());
    weights_.push_back(match(wanted, name));
    known.insert(name);
  }
  for (const auto& tied : model_.tied) known.insert(stored_name(tied.name));
  for (const std::string& name : source_.absent()) {
    if (!known.contains(name))
      refuse(str("its index lists tensor '", name, "' in a file which does not contain it"));
  }
  for (const auto& [name, tensor] : source_.tensors()) {
    if (!known.contains(name) && !has_ending(name, model_.ignored))
      refuse(str("tensor '", name, "' ", checkpoint::shape_text(tensor.info.shape),
                 " is not part of the model in config.json"));
  }
}

const StoredWeight* ModelWeights::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &weights_[found->second];
}

std::uint32_t ModelWeights::fingerprint() const {
  constexpr std::uint64_t kSample = 4096;
  std::uint32_t crc = crc32c(config_);
  std::vector<std::byte> bytes;
  for (const StoredWeight& weight : weights_) {
    const SourceTensor& tensor = *weight.source;
    crc = crc32c(str(weight.info.name, name_of(weight.info.dtype), checkpoint::shape_text(tensor.info.shape)),
                 crc);
    bytes.resize(std::min(kSample, tensor.bytes));
    source_.read(tensor, (tensor.bytes - bytes.size()) / 2, bytes);
    crc = crc32c(bytes, crc);
  }
  return crc;
}

void ModelWeights::check_tied() const {
  for (const auto& [tied_name, tied_to] : model_.tied) {
    const std::string name = stored_name(tied_name);
    const std::string same_as = stored_name(tied_to);
    const auto copy = source_.tensors().find(name);
    if (copy == source_.tensors().end()) continue;
    const SourceTensor& original = source_.tensors().at(same_as);
    const SourceTensor& other = copy->second;
    bool equal = other.info.dtype == original.info.dtype && other.info.shape == original.info.shape;
    std::vector<std::byte> a(kReadAtOnce);
    std::vector<std::byte> b(kReadAtOnce);
    for (std::uint64_t at = 0; equal && at < other.bytes; at += kReadAtOnce) {
      const std::uint64_t size = std::min(kReadAtOnce, other.bytes - at);
      source_.read(original, at, std::span(a).first(size));
      source_.read(other, at, std::span(b).first(size));
      equal = std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin());
    }
    if (!equal)
      refuse(
          str("config.json ties '", name, "' to '", same_as, "' (tie_word_embeddings), but the two differ"));
  }
}

void WeightReader::operator()(const StoredWeight& weight, std::uint64_t begin, DType type,
                              std::span<std::byte> to) {
  const DType stored = weight.info.dtype;
  const std::uint64_t in_size = size_of(stored);
  const std::uint64_t out_size = size_of(type);
  in_.resize(kReadAtOnce);
  while (!to.empty()) {
    const std::uint64_t count = std::min<std::uint64_t>(kReadAtOnce / in_size, to.size() / out_size);
    const auto in = std::span(in_).first(count * in_size);
    if (weight.transposed) {
      transposed_(*weight.source, begin, in);
    } else {
      source_.read(*weight.source, begin * in_size, in);
    }
    convert(in, stored, to.first(count * out_size), type);
    begin += count;
    to = to.subspan(count * out_size);
  }
}

bool is_model_folder(const path& folder) {
  const auto has = [&](const char* name) { return checkpoint::entry_exists(folder / name); };
  return has("config.json") && (has("model.safetensors") || has("model.safetensors.index.json"));
}

std::string config_of(const path& folder) {
  const path generation = folder / "generation_config.json";
  return config_with_ids(
      checkpoint::read_input(folder / "config.json", kMaxConfigBytes),
      checkpoint::entry_exists(generation) ? checkpoint::read_input(generation, kMaxConfigBytes) : "",
      str('\'', folder.string(), "/"));
}

std::string model_section(const path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error(Code::kUsage, "there is no folder '", folder.string(), '\'',
                fs::download_advice(folder, ": "));
  if (!checkpoint::entry_exists(folder / "config.json"))
    throw Error(Code::kUsage, "folder '", folder.string(),
                "' has no config.json; expected a Hugging Face folder: config.json and safetensors",
                checkpoint::other_kind_of(folder));
  std::unique_ptr<WeightSource> source;  // few models ask
  return describe(config_of(folder), folder,
                  [&](const std::string& name) {
                    if (!source) source = std::make_unique<WeightSource>(folder);
                    return source->tensors().contains(name);
                  })
      .recipe;
}

std::map<std::string, std::string> companions_of(const path& folder) {
  std::map<std::string, std::string> files;
  for (const path& file : fs::list_folder(folder, Code::kCheckpoint)) {
    const std::string name = file.filename().string();
    if (!checkpoint::is_companion_file(name) || !checkpoint::attachment_name_problem(name).empty()) continue;
    if (std::filesystem::is_directory(std::filesystem::symlink_status(file))) continue;  // "tokenizer/"
    files[name] = checkpoint::read_input(file, checkpoint::kMaxAttachmentBytes);
  }
  return files;
}

}  // namespace echelon::families
