#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/folder/retention.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "support/refusal.h"

/// A small checkpoint with known content, written by as many pretended ranks as a test wants.
namespace echelon::checkpoint::test {

using namespace echelon::test;  // NOLINT: for its files, too
using Path = std::filesystem::path;

inline std::vector<TensorInfo> example_tensors() {
  return {{"model/model.embed_tokens.weight", DType::kF32, {100, 33}},
          {"model/model.layers.0.mlp.up_proj.weight", DType::kBF16, {64, 7, 3}},
          {"model/model.norm.weight", DType::kF32, {33}},
          {"model/big", DType::kF32, {700, 1000}},  // 2.8 MB: several checksum blocks
          {"optim/model.norm.weight/exp_avg", DType::kF64, {33}},
          {"optim/model.norm.weight/exp_avg_sq", DType::kF16, {33}},
          {"optim/step", DType::kI64, {}},
          {"rng/counters", DType::kI32, {5}},
          {"rng/state", DType::kU8, {17}},
          {"model/nothing", DType::kF32, {0, 4}}};
}

/// Element bytes as a function of tensor and position only. Floats are made finite so that tools can print
/// them.
inline std::vector<std::byte> content_of(const TensorInfo& tensor) {
  std::vector<std::byte> bytes(element_count(tensor) * size_of(tensor.dtype));
  std::uint64_t state = std::hash<std::string>{}(tensor.name) | 1U;
  for (std::byte& b : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    b = static_cast<std::byte>((state >> 56) & 0x3FU);
  }
  return bytes;
}

/// How ranks share a tensor of n elements: ranks + 1 rising borders from 0 to n.
using Cut = std::function<std::vector<std::uint64_t>(const TensorInfo&, std::uint64_t, int)>;

inline std::vector<std::uint64_t> even_cut(const TensorInfo&, std::uint64_t n, int ranks) {
  std::vector<std::uint64_t> borders;
  for (int r = 0; r <= ranks; ++r)
    borders.push_back(n * static_cast<std::uint64_t>(r) / static_cast<std::uint64_t>(ranks));
  return borders;
}

/// Anywhere, empty parts included.
inline Cut random_cut(unsigned seed) {
  return [seed](const TensorInfo& tensor, std::uint64_t n, int ranks) {
    std::mt19937_64 random(seed + std::hash<std::string>{}(tensor.name));
    std::vector<std::uint64_t> borders{0, n};
    for (int r = 1; r < ranks; ++r) borders.push_back(random() % (n + 1));
    std::sort(borders.begin(), borders.end());
    return borders;
  };
}

struct Example {
  std::int64_t step = 1200;
  std::string save_id = "a1b2c3d4";
  int ranks = 2;
  Cut cut = even_cut;
  std::vector<TensorInfo> tensors = example_tensors();
  std::string trainer_state = R"({"tokens":123456789,"schedule":{"lr":0.00012345}})";
  std::map<std::string, std::string> attachments{
      {"recipe.yaml", "run: {name: x}\n"},
      {"config.json", R"({"model_type": "llama", "torch_dtype": "float32"})"}};
};

inline std::map<std::string, std::vector<std::byte>> contents_of(const std::vector<TensorInfo>& tensors) {
  std::map<std::string, std::vector<std::byte>> all;
  for (const TensorInfo& tensor : tensors) all[tensor.name] = content_of(tensor);
  return all;
}

inline std::vector<Slice> slices_of(const Example& example, int rank,
                                    const std::map<std::string, std::vector<std::byte>>& contents) {
  std::vector<Slice> slices;
  for (const TensorInfo& tensor : example.tensors) {
    const auto borders = example.cut(tensor, element_count(tensor), example.ranks);
    const auto begin = borders[static_cast<std::size_t>(rank)];
    const auto end = borders[static_cast<std::size_t>(rank) + 1];
    const std::size_t size = size_of(tensor.dtype);
    slices.push_back({tensor, begin, end,
                      std::span(contents.at(tensor.name)).subspan(begin * size, (end - begin) * size)});
  }
  return slices;
}

/// Writes every shard, no COMMIT. Returns the step folder.
inline Path write_shards(const Path& checkpoints, const Example& example) {
  const Path folder = checkpoints / step_folder_name(example.step, example.save_id);
  std::filesystem::create_directories(folder);
  const auto contents = contents_of(example.tensors);
  for (int rank = 0; rank < example.ranks; ++rank)
    write_shard(folder, rank, example.ranks, example.save_id, slices_of(example, rank, contents));
  return folder;
}

inline CommitInfo commit_info(const Example& example) {
  return {.step = example.step,
          .save_id = example.save_id,
          .ranks = example.ranks,
          .tensors = example.tensors,
          .trainer_state = example.trainer_state,
          .attachments = example.attachments};
}

/// The whole thing, committed.
inline Path save(const Path& checkpoints, const Example& example = {}) {
  const Path folder = write_shards(checkpoints, example);
  commit(folder, commit_info(example));
  return folder;
}

inline std::vector<std::byte> read_all(const Reader& reader, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(element_count(tensor) * size_of(tensor.dtype));
  reader.read(tensor.name, 0, element_count(tensor), bytes);
  return bytes;
}

/// The one-line text of the Error that `body` throws; "" when it throws none.
template <class Body>
std::string error_of(const Body& body) {
  const std::optional<Error> error = thrown_by(body);
  return error ? error->what() : "";
}

/// As if this process had saved all the checkpoints in a folder.
inline KnownSteps all_in(const Path& checkpoints) {
  KnownSteps known;
  if (!std::filesystem::exists(checkpoints)) return known;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
    known.readable.insert(entry.path().filename());
  return known;
}

/// Sorted.
inline std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline void flip_bit(const Path& file, std::uint64_t byte, int bit = 0) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(byte));
  const int value = stream.get();
  stream.seekp(static_cast<std::streamoff>(byte));
  stream.put(static_cast<char>(value ^ (1 << bit)));
}

inline std::string slurp(const Path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
inline void spill(const Path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace echelon::checkpoint::test
