#include <fcntl.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"
#include "checkpoint/contents.h"
#include "checkpoint/geometry.h"
#include "checkpoint/h5_layout.h"
#include "checkpoint/new_file.h"
#include "checkpoint/reader.h"
#include "commands.h"
#include "convert.h"
#include "partial_output.h"
#include "progress.h"
#include "safetensors.h"

namespace echelon::tool {
namespace {

using checkpoint::NewFile;
using checkpoint::Reader;
using checkpoint::TensorInfo;

constexpr std::string_view kModel = "model/";
constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;  // whole checksum blocks

/// A tensor on its way out.
struct Job {
  const TensorInfo* tensor = nullptr;
  DType out_type = DType::kF32;
  std::uint64_t elements = 0;
  std::uint64_t file_offset = 0;
};

bool is_model(const TensorInfo& tensor) {
  return tensor.name.starts_with(kModel);
}

DType output_type(const TensorInfo& tensor, const std::string& wanted) {
  if (wanted == "same" || !is_model(tensor) || !is_floating(tensor.dtype)) return tensor.dtype;
  return *checkpoint::dtype_named(wanted);
}

std::vector<Job> jobs_for(const Reader& reader, const std::string& dtype, bool model) {
  std::vector<Job> jobs;
  for (const TensorInfo& tensor : reader.tensors()) {
    if (is_model(tensor) != model) continue;
    jobs.push_back({&tensor, output_type(tensor, dtype), checkpoint::element_count(tensor)});
  }
  return jobs;
}

std::uint64_t input_bytes(const std::vector<Job>& jobs) {
  std::uint64_t sum = 0;
  for (const Job& job : jobs) sum += job.elements * size_of(job.tensor->dtype);
  return sum;
}

/// Streams tensors from shards to a file: at most two windows in memory, whatever the size of a tensor.
class Copier {
 public:
  Copier(const Reader& reader, Progress& progress, std::uint64_t total)
      : reader_(reader), progress_(progress), total_(total), in_(kWindowBytes) {}

  void copy(const Job& job, NewFile& file) {
    const std::uint64_t in_size = size_of(job.tensor->dtype);
    const std::uint64_t out_size = size_of(job.out_type);
    std::uint32_t crc = 0;
    for (const auto& range : reader_.stored_ranges(job.tensor->name)) {
      for (std::uint64_t at = range.begin; at < range.end; at += kWindowBytes / in_size) {
        const std::uint64_t count = std::min(kWindowBytes / in_size, range.end - at);
        const auto in = std::span(in_).first(count * in_size);
        reader_.read(job.tensor->name, at, at + count, in);
        crc = crc32c(in, crc);
        file.write(job.file_offset + at * out_size, converted(in, job, count * out_size));
        done_ += in.size();
        progress_.show(done_, total_);
      }
    }
    // The pieces were right one by one; this proves that they were put together in the right order.
    if (crc != reader_.checksum(job.tensor->name)) {
      throw Error(Code::kCheckpoint, str("tensor '", job.tensor->name, "' does not add up to its checksum"));
    }
  }

 private:
  std::span<const std::byte> converted(std::span<const std::byte> in, const Job& job, std::uint64_t bytes) {
    if (job.out_type == job.tensor->dtype) return in;
    out_.resize(bytes);
    convert(in, job.tensor->dtype, out_, job.out_type);
    return out_;
  }

  const Reader& reader_;
  Progress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
};

void write_hdf5(const Reader& reader, std::vector<Job>& jobs, const Path& path, Copier& copier) {
  std::vector<checkpoint::H5Dataset> datasets;
  for (const Job& job : jobs) {
    datasets.push_back({.path = job.tensor->name,
                        .dtype = job.out_type,
                        .shape = {job.tensor->shape.begin(), job.tensor->shape.end()}});
  }
  const std::vector<checkpoint::H5Attribute> root{{"step", {reader.step()}, true}};
  const checkpoint::H5Layout layout = checkpoint::lay_out_h5(datasets, 0, root);
  NewFile file(path, layout.file_bytes);
  file.write(0, layout.metadata);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].file_offset = layout.offsets[i];
    copier.copy(jobs[i], file);
  }
  file.finish();
}

void write_safetensors(std::vector<Job>& jobs, const Path& path, Copier& copier) {
  std::vector<SafetensorsEntry> entries;
  for (const Job& job : jobs) {
    std::string name = job.tensor->name;
    if (is_model(*job.tensor)) name.erase(0, kModel.size());
    entries.push_back(
        {std::move(name), job.out_type, job.tensor->shape, job.elements * size_of(job.out_type)});
  }
  const SafetensorsLayout layout = lay_out_safetensors(entries);
  NewFile file(path, layout.file_bytes);
  file.write(0, std::as_bytes(std::span(layout.head)));
  for (const std::size_t i : layout.order) {
    jobs[i].file_offset = layout.offsets[i];
    copier.copy(jobs[i], file);
  }
  file.finish();
}

/// config.json as the trainer attached it; its element type follows --dtype.
std::string config_text(const Reader& reader, const std::string& dtype) {
  std::string text = reader.attachment("config.json");
  if (dtype == "same") return text;
  auto config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw Error(Code::kCheckpoint, "attachment 'config.json' is not a JSON object");
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = dtype == "bf16" ? "bfloat16" : "float32";
  }
  return config.dump(2) + "\n";
}

bool is_tokenizer_file(const std::string& name) {
  return name.starts_with("tokenizer") || name == "spiece.model" || name == "vocab.json" ||
         name == "merges.txt" || name == "special_tokens_map.json" || name == "generation_config.json";
}

/// Returns whether a tokenizer was among the copied files.
bool write_small_files(const Reader& reader, const Path& folder, const std::string& dtype) {
  fs::publish_file(folder / "config.json", config_text(reader, dtype), Code::kCheckpoint);
  bool tokenizer = false;
  for (const std::string& name : reader.attachments()) {
    if (!is_tokenizer_file(name)) continue;
    fs::publish_file(folder / name, reader.attachment(name), Code::kCheckpoint);
    tokenizer = tokenizer || name != "generation_config.json";
  }
  return tokenizer;
}

void check_exportable(const Reader& reader, const ConsolidateOptions& options,
                      const std::vector<Job>& model) {
  if (model.empty()) throw Error(Code::kCheckpoint, "the checkpoint holds no tensor under 'model/'");
  const auto attachments = reader.attachments();
  if (options.to == "safetensors" &&
      std::find(attachments.begin(), attachments.end(), "config.json") == attachments.end()) {
    throw Error(Code::kCheckpoint,
                "the checkpoint has no attachment config.json, without which transformers cannot open the "
                "folder; use --to hdf5 for the bare tensors");
  }
}

}  // namespace

void consolidate(const ConsolidateOptions& options) {
  const Path folder = checkpoint::newest_commit(options.checkpoint);
  const Reader reader(folder);
  std::vector<Job> model = jobs_for(reader, options.dtype, true);
  std::vector<Job> rest = options.optimizer ? jobs_for(reader, options.dtype, false) : std::vector<Job>{};
  check_exportable(reader, options, model);
  PartialOutput output(options.output, folder);
  bool tokenizer = true;
  {
    Progress progress("consolidating");
    Copier copier(reader, progress, input_bytes(model) + input_bytes(rest));
    if (options.to == "hdf5") {
      model.insert(model.end(), rest.begin(), rest.end());
      write_hdf5(reader, model, output.path(), copier);
    } else {
      fs::make_directories(output.path(), Code::kCheckpoint);
      tokenizer = write_small_files(reader, output.path(), options.dtype);
      write_safetensors(model, output.path() / "model.safetensors", copier);
      if (options.optimizer) write_safetensors(rest, output.path() / "optimizer.safetensors", copier);
      fs::fsync_directory(output.path(), Code::kCheckpoint);
    }
  }
  output.publish();
  std::cout << "wrote '" << options.output.string() << "' from step " << reader.step() << '\n';
  if (!tokenizer) std::cout << "note: the checkpoint holds no tokenizer, so the folder has none\n";
}

}  // namespace echelon::tool
