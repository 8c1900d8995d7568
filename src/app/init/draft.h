#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/choice.h"
#include "recipe/draft.h"

namespace echelon::app {

/// What a first recipe is for.
enum class Goal : std::uint8_t { kPretrain, kFineTune, kLora };
}  // namespace echelon::app
template <>
inline constexpr std::array<std::string_view, 3> echelon::kWords<echelon::app::Goal>{"pretrain", "fine-tune",
                                                                                     "lora"};
namespace echelon::app {

/// The machines of a job: "2 x 8 h100", "1 x 2 cpu".
struct Machines {
  int nodes = 1;
  int ranks_per_node = 1;
  std::string device = "cpu";  ///< a name that `plan --gpu` takes
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

/// The answers from which a recipe is drafted.
struct Answers {
  Goal goal = Goal::kPretrain;
  std::string model;  ///< pretrain: a preset; else a Hugging Face folder
  std::string data;   ///< folder that `prepare` made: train.tok, and perhaps valid.tok
  Machines machines;
  std::int64_t steps = 0;
};

/// What the answers' model and data imply.
struct Circumstances {
  std::int64_t max_positions = 0;
  std::uint64_t vocab_size = 0;  ///< of the data's tokenizer
  bool has_validation = false;
};

/// The recipe's keys in the order in which they are written: neighbors with a common section.
[[nodiscard]] std::vector<recipe::DraftLine> draft(const Answers& answers,
                                                   const Circumstances& circumstances);

}  // namespace echelon::app
