#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "base/str.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/read/verify.h"
#include "checkpoint/write/shard_write.h"
#include "checkpoint/write/staging.h"
#include "unit/checkpoint/example.h"

/// A run of two ranks small enough to be looked at in ten thousand states. What a step saves is a function of
/// the step, so that a mix of two saves cannot pass for either.
namespace echelon::checkpoint::test {

struct TinyRun {
  Path root = "/run";
  int ranks = 2;
  /// Through write_shard(), instead of its parts with memory that is kept from save to save: that is so much
  /// quicker that hundreds of saves are no matter. Only one such run writes at a time.
  bool whole_call = false;

  [[nodiscard]] Path checkpoints() const { return root / "checkpoints"; }

  [[nodiscard]] static std::vector<TensorInfo> tensors() {
    return {{"model/w", DType::kF32, {37, 31}},
            {"model/b", DType::kBF16, {17}},
            {"optim/w/exp_avg", DType::kF32, {37, 31}},
            {"optim/step", DType::kI64, {}}};
  }

  [[nodiscard]] static std::vector<std::byte> content(const TensorInfo& tensor, std::int64_t step) {
    std::vector<std::byte> bytes = content_of(tensor);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] ^=
          static_cast<std::byte>((static_cast<std::uint64_t>(step) * 0x9E3779B97F4A7C15U) >> (8 * (i % 8)));
    return bytes;
  }

  [[nodiscard]] Example example(std::int64_t step) const {
    return {.step = step,
            .save_id = save_id(step),
            .ranks = ranks,
            .cut = random_cut(7),
            .tensors = tensors(),
            .trainer_state = str("{\"step\":", step, "}"),
            .attachments = {{"recipe.yaml", str("run: {name: tiny, step: ", step, "}\n")}}};
  }
  [[nodiscard]] static std::string save_id(std::int64_t step) {
    return str(std::string(8 - std::to_string(step).size(), '0'), step);
  }
  [[nodiscard]] Path folder(std::int64_t step) const {
    return checkpoints() / step_folder_name(step, save_id(step));
  }

  void begin(std::int64_t step) const { fs::make_directories(folder(step), Code::kCheckpoint); }

  void write(std::int64_t step, int rank) const {
    const Example what = example(step);
    std::map<std::string, std::vector<std::byte>> contents;
    for (const TensorInfo& tensor : what.tensors) contents[tensor.name] = content(tensor, step);
    if (whole_call) {
      write_shard(folder(step), rank, ranks, what.save_id, slices_of(what, rank, contents));
      return;
    }
    static Staging staging(0);
    staging.reset();
    const std::vector<Slice> slices = slices_of(what, rank, contents);
    ShardWrite shard(folder(step), plan_shard(rank, ranks, what.save_id, slices), slices, staging, {});
    shard.stage();
    shard.write();
  }

  void finish(std::int64_t step) const { commit(folder(step), commit_info(example(step))); }

  /// As if one process had saved all steps there may be.
  [[nodiscard]] KnownSteps known() const {
    KnownSteps all;
    for (std::int64_t step = 0; step < 100; ++step) all.readable.insert(folder(step).filename());
    return all;
  }
  void prune(std::int64_t keep) const { checkpoint::prune(checkpoints(), {.keep_last = keep}, known()); }

  /// All of a save, one rank after the other.
  void save(std::int64_t step) const {
    begin(step);
    for (int rank = 0; rank < ranks; ++rank) write(step, rank);
    finish(step);
  }

  /// What is wrong with what an open checkpoint delivers, or "".
  [[nodiscard]] static std::string wrong_content(const Reader& reader) {
    if (reader.tensors().size() != tensors().size()) return "has other tensors";
    for (const TensorInfo& tensor : tensors()) {
      if (reader.find(tensor.name) == nullptr) return str("has no ", tensor.name);
      if (read_all(reader, tensor) != content(tensor, reader.step())) return str(tensor.name, " differs");
    }
    if (reader.trainer_state() != str("{\"step\":", reader.step(), "}")) return "trainer state differs";
    if (reader.attachment("recipe.yaml") != str("run: {name: tiny, step: ", reader.step(), "}\n"))
      return "recipe.yaml differs";
    return "";
  }

  /// How what lies in the checkpoints folder differs from the whole checkpoints of these steps, or "".
  [[nodiscard]] std::string leaves(const std::vector<std::int64_t>& steps) const {
    const std::vector<Path> folders = mapped(steps, [&](std::int64_t step) { return folder(step); });
    const std::vector<Path> found = fs::list_folder(checkpoints(), Code::kCheckpoint);
    if (found != folders) {
      std::string names;
      for (const Path& path : found) names += str(path.filename().string(), ' ');
      return "there is " + names;
    }
    for (const Path& path : folders) {
      if (std::string wrong = wrong_in(path); !wrong.empty()) return wrong;
    }
    return "";
  }

  /// What is wrong with one step folder, or "": every byte against its checksum, every tensor against what
  /// was saved.
  [[nodiscard]] static std::string wrong_in(const Path& folder) {
    const VerifyReport report = verify(folder, VerifyDepth::kDeep, {});
    if (!report.damages.empty()) return report.damages.front().problem;
    std::string wrong;
    const std::string error = error_of([&] { wrong = wrong_content(Reader(folder)); });
    return error.empty() && !wrong.empty() ? str(folder.string(), ": ", wrong) : error;
  }
};

}  // namespace echelon::checkpoint::test
