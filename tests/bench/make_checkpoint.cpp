// A checkpoint of a given size with the tensors of a Llama and its AdamW state, for the benchmarks of
// echelon-ckpt. usage: make_bench_checkpoint FOLDER MIB RANKS
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "support/llama_tensors.h"

namespace {

using namespace echelon;              // NOLINT
using namespace echelon::checkpoint;  // NOLINT

constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kInner = 4096;
constexpr std::int64_t kVocabulary = 32000;
constexpr const char* kSaveId = "0a1b2c3d";
constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})";

void add(std::vector<TensorInfo>& tensors, const std::string& name, std::vector<std::int64_t> shape) {
  tensors.push_back({"model/" + name, DType::kF32, shape});
  tensors.push_back({"optim/" + name + "/exp_avg", DType::kF32, shape});
  tensors.push_back({"optim/" + name + "/exp_avg_sq", DType::kF32, std::move(shape)});
}

std::uint64_t bytes_of(const std::vector<TensorInfo>& tensors) {
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) sum += element_count(tensor) * size_of(tensor.dtype);
  return sum;
}

/// Embedding and head, then layers until the size is reached.
std::vector<TensorInfo> tensors_of(std::uint64_t bytes) {
  std::vector<TensorInfo> tensors;
  add(tensors, "model.embed_tokens.weight", {kVocabulary, kHidden});
  add(tensors, "model.norm.weight", {kHidden});
  for (int i = 0; bytes_of(tensors) < bytes; ++i) {
    for (const TensorInfo& tensor : test::llama_block("", i, kHidden, kHidden, kInner))
      add(tensors, tensor.name, tensor.shape);
  }
  return tensors;
}

/// Finite values that do not repeat soon.
std::vector<float> content_of(std::uint64_t begin, std::uint64_t end) {
  std::vector<float> values;
  values.reserve(end - begin);
  for (std::uint64_t i = begin; i < end; ++i)
    values.push_back(static_cast<float>((i * 2654435761U) >> 8 & 0xFFFFFU) * 1e-6F - 0.5F);
  return values;
}

void make(const std::filesystem::path& root, std::uint64_t bytes, int ranks) {
  const auto folder = root / "checkpoints" / step_folder_name(1, kSaveId);
  std::filesystem::create_directories(folder);
  const std::vector<TensorInfo> tensors = tensors_of(bytes);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<float>> contents;
    std::vector<Slice> slices;
    for (const TensorInfo& tensor : tensors) {
      const std::uint64_t count = element_count(tensor);
      const auto border = [&](int r) {
        return count * static_cast<std::uint64_t>(r) / static_cast<std::uint64_t>(ranks);
      };
      contents.push_back(content_of(border(rank), border(rank + 1)));
      slices.push_back({tensor, border(rank), border(rank + 1), std::as_bytes(std::span(contents.back()))});
    }
    write_shard(folder, rank, ranks, kSaveId, slices);
  }
  commit(folder, {.step = 1,
                  .save_id = kSaveId,
                  .ranks = ranks,
                  .tensors = tensors,
                  .trainer_state = "{}",
                  .attachments = {{"config.json", kConfig}}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: make_bench_checkpoint FOLDER MIB RANKS\n";
    return 2;
  }
  try {
    make(argv[1], std::strtoull(argv[2], nullptr, 10) << 20, std::atoi(argv[3]));
    return 0;
  } catch (const echelon::Error& e) {
    std::cerr << e.what() << '\n';
    return static_cast<int>(e.code());
  }
}
