// make_test_checkpoint FOLDER: saves a tiny Llama, three ranks, cut at awkward places, for the Python
// oracles. Element i of a tensor whose name has n characters is f(n + i), see number(); the oracles compute
// the same.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/half.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "support/llama_tensors.h"

namespace {

using namespace echelon;              // NOLINT
using namespace echelon::checkpoint;  // NOLINT

constexpr int kRanks = 3;
constexpr const char* kConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 40, "hidden_size": 16,
  "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
  "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2,
  "torch_dtype": "float32", "dtype": "float32"
})";

std::vector<TensorInfo> tensors() {
  std::vector<TensorInfo> all{{"model/model.embed_tokens.weight", DType::kF32, {40, 16}},
                              {"model/model.norm.weight", DType::kF32, {16}},
                              {"model/lm_head.weight", DType::kF32, {40, 16}}};
  for (const int block : {0, 1}) {
    for (const TensorInfo& tensor : test::llama_block("model/", block, 16, 8, 24)) all.push_back(tensor);
  }
  const std::size_t parameters = all.size();
  for (std::size_t i = 0; i < parameters; ++i)
    all.push_back({"ema/" + all[i].name.substr(6), all[i].dtype, all[i].shape});
  all.push_back({"optim/half/exp_avg", DType::kBF16, {5, 7}});
  all.push_back({"optim/half/exp_avg_sq", DType::kF16, {35}});
  all.push_back({"optim/double", DType::kF64, {3, 4, 5}});
  all.push_back({"optim/step", DType::kI64, {}});
  all.push_back({"rng/int", DType::kI32, {9}});
  all.push_back({"rng/bytes", DType::kU8, {300}});
  return all;
}

// Multiples of 1/4 below 32 in size: exact in every type here that has a fraction. Single precision gets a
// third of it, so that making it shorter has to round.
double fraction(std::uint64_t i) {
  return static_cast<double>(static_cast<std::int64_t>(i * 7 % 127) - 63) / 4;
}
std::int64_t number(std::uint64_t i) {
  return static_cast<std::int64_t>(i * 3);
}

template <class T>
void store(std::vector<std::byte>& bytes, std::uint64_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

std::vector<std::byte> content(const TensorInfo& tensor) {
  const std::uint64_t count = element_count(tensor);
  std::vector<std::byte> bytes(count * size_of(tensor.dtype));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t x = tensor.name.size() + i;
    switch (tensor.dtype) {
      case DType::kF32: store(bytes, i, static_cast<float>(fraction(x) / 3)); break;
      case DType::kF64: store(bytes, i, fraction(x)); break;
      case DType::kBF16: store(bytes, i, float_to_bf16(static_cast<float>(fraction(x)))); break;
      case DType::kF16: store(bytes, i, float_to_half(static_cast<float>(fraction(x)))); break;
      case DType::kI32: store(bytes, i, static_cast<std::int32_t>(number(x))); break;
      case DType::kI64: store(bytes, i, number(x)); break;
      case DType::kU8: store(bytes, i, static_cast<std::uint8_t>(number(x))); break;
    }
  }
  return bytes;
}

// Borders in the middle of rows; a scalar and short tensors leave some ranks without a part.
std::pair<std::uint64_t, std::uint64_t> part_of(std::uint64_t count, int rank) {
  const std::uint64_t first = count / 3 + (count > 10 ? 1 : 0);
  const std::uint64_t second = std::min(count, 2 * first + 3);
  if (rank == 0) return {0, first};
  return rank == 1 ? std::pair(first, second) : std::pair(second, count);
}

void make(const std::filesystem::path& root) {
  const std::string id = "0a1b2c3d";
  const std::filesystem::path folder = root / "checkpoints" / step_folder_name(42, id);
  std::filesystem::create_directories(folder);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<std::vector<std::byte>> contents;
    std::vector<Slice> slices;
    for (const TensorInfo& tensor : tensors()) {
      contents.push_back(content(tensor));
      const auto [begin, end] = part_of(element_count(tensor), rank);
      const std::size_t size = size_of(tensor.dtype);
      slices.push_back(
          {tensor, begin, end, std::span(contents.back()).subspan(begin * size, (end - begin) * size)});
    }
    write_shard(folder, rank, kRanks, id, slices);
  }
  commit(folder,
         {.step = 42,
          .save_id = id,
          .ranks = kRanks,
          .tensors = tensors(),
          .trainer_state = R"({"tokens": 1000})",
          .attachments = {{"config.json", kConfig}, {"tokenizer.model", std::string("not\0text", 8)}}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_test_checkpoint FOLDER\n";
    return 2;
  }
  try {
    make(argv[1]);
    return 0;
  } catch (const Error& e) {
    std::cerr << e.what() << '\n';
    return static_cast<int>(e.code());
  }
}
