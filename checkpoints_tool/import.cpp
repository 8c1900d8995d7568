#include <algorithm>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/convert.h"
#include "checkpoints_tool/convert/new_checkpoint.h"
#include "checkpoints_tool/convert/transposed_read.h"
#include "checkpoints_tool/families/hugging_face_files.h"
#include "checkpoints_tool/families/model_family.h"
#include "checkpoints_tool/families/weight_source.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

using checkpoint::TensorInfo;

constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;

/// A parameter to be imported.
struct Job {
  const SourceTensor* source = nullptr;
  TensorInfo target;
  bool transposed = false;
};

[[noreturn]] void refuse(const Path& folder, const std::string& problem) {
  throw Error(Code::kCheckpoint, str("cannot import '", folder.string(), "': ", problem));
}

/// How a model's names appear in a folder's files.
class StoredNames {
 public:
  StoredNames(const WeightSource& source, const ModelDescription& model) : prefix_(model.optional_prefix) {
    const auto has_prefix = [this](const auto& tensor) { return tensor.first.starts_with(prefix_); };
    if (std::any_of(source.tensors().begin(), source.tensors().end(), has_prefix)) prefix_.clear();
  }
  [[nodiscard]] std::string operator()(const std::string& name) const {
    return !prefix_.empty() && name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  }

 private:
  std::string prefix_;  ///< a prefix that the files omit
};

/// The parameter `wanted`, which the files call `name`.
Job match_one(const WeightSource& source, const TensorInfo& wanted, const std::string& name,
              const ModelDescription& model, OutputType dtype) {
  const auto found = source.tensors().find(name);
  if (found == source.tensors().end())
    refuse(source.folder(), str("tensor '", name, "' ", checkpoint::shape_text(wanted.shape),
                                " of config.json's model is missing"));
  const TensorInfo& stored = found->second.info;
  if (stored.shape != wanted.shape)
    refuse(source.folder(), str("tensor '", name, "' has the shape ", checkpoint::shape_text(stored.shape),
                                "; config.json requires ", checkpoint::shape_text(wanted.shape)));
  if (!found->second.other_type.empty())
    refuse(source.folder(), str("tensor '", name, "' has the element type '", found->second.other_type,
                                "'; a weight must be a floating-point number"));
  if (!is_floating(stored.dtype))
    refuse(source.folder(), str("tensor '", name, "' is ", name_of(stored.dtype),
                                "; a weight must be a floating-point number"));
  Job job{&found->second, {"model/" + wanted.name, converted(stored.dtype, dtype), wanted.shape}};
  job.transposed = has_ending(wanted.name, model.transposed);
  if (job.transposed) std::swap(job.target.shape.at(0), job.target.shape.at(1));
  return job;
}

/// What AutoModel saves is the model without its head, though its config.json is that of the whole.
void require_head(const WeightSource& source, const ModelDescription& model) {
  constexpr const char* kHead = "lm_head.weight";
  const auto is_head = [&](const TensorInfo& tensor) { return tensor.name == kHead; };
  const bool wanted = std::any_of(model.tensors.begin(), model.tensors.end(), is_head);
  if (!wanted || model.copies.contains(kHead) || source.tensors().contains(kHead)) return;
  refuse(
      source.folder(),
      str("it holds a base model, without the head ('", kHead,
          "') that predicts tokens, and config.json does not tie the head to the embedding; save the whole "
          "model (AutoModelForCausalLM, not AutoModel), or set tie_word_embeddings to true if they are one"));
}

/// Every parameter of the model, with its shape, and nothing else.
std::vector<Job> match(const WeightSource& source, const ModelDescription& model, const StoredNames& stored,
                       OutputType dtype) {
  require_head(source, model);
  std::vector<Job> jobs;
  std::set<std::string> known;
  for (const TensorInfo& wanted : model.tensors) {
    const auto copy = model.copies.find(wanted.name);
    const std::string name = stored(copy == model.copies.end() ? wanted.name : copy->second);
    jobs.push_back(match_one(source, wanted, name, model, dtype));
    known.insert(name);
  }
  for (const auto& tied : model.tied) known.insert(stored(tied.name));
  for (const auto& [name, tensor] : source.tensors()) {
    if (!known.contains(name) && !has_ending(name, model.ignored))
      refuse(source.folder(), str("tensor '", name, "' ", checkpoint::shape_text(tensor.info.shape),
                                  " is not part of the model in config.json"));
  }
  return jobs;
}

/// A second copy of a tied weight must be equal to the first.
void check_tied(const WeightSource& source, const ModelDescription& model, const StoredNames& stored) {
  for (const auto& [tied_name, tied_to] : model.tied) {
    const std::string name = stored(tied_name);
    const std::string same_as = stored(tied_to);
    const auto copy = source.tensors().find(name);
    if (copy == source.tensors().end()) continue;
    const SourceTensor& original = source.tensors().at(same_as);
    const SourceTensor& other = copy->second;
    bool equal = other.info.dtype == original.info.dtype && other.info.shape == original.info.shape;
    std::vector<std::byte> a(kStepBytes);
    std::vector<std::byte> b(kStepBytes);
    for (std::uint64_t at = 0; equal && at < other.bytes; at += kStepBytes) {
      const std::uint64_t size = std::min(kStepBytes, other.bytes - at);
      source.read(original, at, std::span(a).first(size));
      source.read(other, at, std::span(b).first(size));
      equal = std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin());
    }
    if (!equal)
      refuse(source.folder(), str("config.json ties '", name, "' to '", same_as,
                                  "' (tie_word_embeddings), but the two differ"));
  }
}

/// Reads a stretch of a tensor, in the type it will have.
class Filler {
 public:
  Filler(const WeightSource& source, const std::vector<Job>& jobs)
      : source_(source), transposed_(source), jobs_(jobs), in_(kStepBytes) {
    for (const Job& job : jobs) total_ += checkpoint::element_count(job.target) * size_of(job.target.dtype);
  }

  void operator()(std::size_t tensor, std::uint64_t begin, std::uint64_t at, std::span<std::byte> to) {
    const Job& job = jobs_[tensor];
    const std::uint64_t in_size = size_of(job.source->info.dtype);
    const std::uint64_t out_size = size_of(job.target.dtype);
    std::uint64_t element = begin + at / out_size;
    for (std::size_t done = 0; done < to.size();) {
      const std::uint64_t count =
          std::min<std::uint64_t>(kStepBytes / in_size, (to.size() - done) / out_size);
      const auto in = std::span(in_).first(count * in_size);
      if (job.transposed) {
        transposed_(*job.source, element, in);
      } else {
        source_.read(*job.source, element * in_size, in);
      }
      convert(in, job.source->info.dtype, to.subspan(done, count * out_size), job.target.dtype);
      element += count;
      done += count * out_size;
    }
    done_ += to.size();
    progress_.show(done_, total_);
  }

  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  const WeightSource& source_;
  TransposedRead transposed_;
  const std::vector<Job>& jobs_;
  std::vector<std::byte> in_;
  Progress progress_{"importing"};
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

/// config.json and the tokenizer, unchanged except for the element type and corrections from the model's
/// description; and a recipe.
std::map<std::string, std::string> attachments_of(const Path& folder, const std::string& config,
                                                  const ModelDescription& model, OutputType dtype) {
  std::map<std::string, std::string> files{
      {"config.json", config_with_members(config_with_dtype(config, dtype), model.config_members)},
      {"recipe.yaml", model.whole_recipe()}};
  for (const Path& path : fs::list_folder(folder, Code::kCheckpoint)) {
    const std::string name = path.filename().string();
    if (!checkpoint::is_companion_file(name) || !checkpoint::attachment_name_problem(name).empty()) continue;
    if (std::filesystem::is_directory(std::filesystem::symlink_status(path))) continue;  // "tokenizer/"
    files[name] = checkpoint::read_input(path, checkpoint::kMaxAttachmentBytes);
  }
  return files;
}

}  // namespace

void import_weights(const ImportOptions& options) {
  const WeightSource source(options.input);
  const Path config_path = source.folder() / "config.json";
  if (!checkpoint::entry_exists(config_path))
    refuse(source.folder(), "config.json, which describes the model, is missing beside the weights");
  const Path generation = source.folder() / "generation_config.json";
  const std::string config = config_with_ids(
      checkpoint::read_input(config_path, kMaxConfigBytes),
      checkpoint::entry_exists(generation) ? checkpoint::read_input(generation, kMaxConfigBytes) : "",
      str('\'', source.folder().string(), "/"));
  const ModelDescription model =
      describe_model(config, str('\'', config_path.string(), '\''), Purpose::kImport,
                     [&](const std::string& name) { return source.tensors().contains(name); });
  const StoredNames stored(source, model);
  const std::vector<Job> jobs = match(source, model, stored, options.dtype);
  check_tied(source, model, stored);

  checkpoint::CommitInfo info{.step = 0,
                              .ranks = options.world,
                              .trainer_state = R"({"imported":{"from":"safetensors","optimizer":false}})",
                              .attachments = attachments_of(source.folder(), config, model, options.dtype)};
  for (const Job& job : jobs) info.tensors.push_back(job.target);
  Path folder;
  std::uint64_t bytes = 0;
  {
    Filler filler(source, jobs);
    bytes = filler.total();
    folder = write_new_checkpoint(options.output, source.folder(), std::move(info), std::ref(filler),
                                  [&](const Path&) { source.check_unchanged(); });
  }
  std::cout << "imported " << jobs.size() << " tensors, " << human_bytes(bytes) << ", into '"
            << folder.string() << "'; the recipe's section for this model:\n"
            << model.recipe;
}

}  // namespace echelon::tool
