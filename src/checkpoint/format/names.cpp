#include "checkpoint/format/names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "base/files/own_file.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::checkpoint {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 9;
constexpr std::size_t kIdDigits = 8;
constexpr std::size_t kMaxTensorName = 255;
constexpr std::size_t kMaxAttachmentName = 100;

}  // namespace

// Names are joined without str(): out of memory, a stream truncates silently, and a file with a truncated
// name is lost.
std::string with_zeros(std::int64_t number, int digits) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%0*lld", digits, static_cast<long long>(number));
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string step_folder_name(std::int64_t step, std::string_view save_id) {
  if (step < 0 || step > kMaxStep) throw Error(Code::kCheckpoint, "step ", step, " is outside 0..", kMaxStep);
  if (!is_save_id(save_id)) {
    throw Error(Code::kCheckpoint, "save id '", save_id, "' is not eight lower-case hex digits");
  }
  return std::string(kStepPrefix).append(with_zeros(step, kStepDigits)).append(1, '.').append(save_id);
}

std::string new_save_id() {
  return fs::random_hex();
}

std::optional<StepName> parse_step_folder(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (!name.starts_with(kStepPrefix) || dot == std::string_view::npos || dot < kStepPrefix.size())
    return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size(), dot - kStepPrefix.size());
  StepName found{.save_id = std::string(name.substr(dot + 1))};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found.step);
  if (error != std::errc{} || end != digits.data() + digits.size() || !is_save_id(found.save_id))
    return std::nullopt;
  // Only the canonical spelling: no sign, no other number of leading zeros.
  if (found.step < 0 || found.step > kMaxStep || step_folder_name(found.step, found.save_id) != name)
    return std::nullopt;
  return found;
}

bool is_save_id(std::string_view text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string shard_file_name(int rank, int ranks) {
  return "shard-" + with_zeros(rank, 5) + "-of-" + with_zeros(ranks, 5) + ".h5";
}

std::string failure_file_name(int rank) {
  return "FAILED-" + with_zeros(rank, 5);
}

std::string tensor_name_problem(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxTensorName)
    return str("has ", name.size(), " bytes; at most ", kMaxTensorName, " are allowed");
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty()) return "has an empty part between '/'";
    if (part == "." || part == "..") return "has a part '.' or '..'";
    if (!std::ranges::all_of(part, belongs_in_name)) return "has a character outside [A-Za-z0-9._-/]";
    begin = end + 1;
  }
  return "";
}

std::string attachment_name_problem(std::string_view name) {
  if (name.empty() || name.size() > kMaxAttachmentName)
    return str("is not 1 to ", kMaxAttachmentName, " bytes long");
  if (!std::ranges::all_of(name, belongs_in_name)) return "has a character outside [A-Za-z0-9._-]";
  if (name.front() == '.' || name.front() == '-') return "begins with '.' or '-'";
  if (name == kManifestFile || name == kCommitFile || name.starts_with("shard-") || name.ends_with(".tmp")) {
    return "is reserved for the checkpoint's own files";
  }
  return "";
}

bool is_companion_file(std::string_view name) {
  // Besides everything that begins with "tokenizer".
  static constexpr std::array<std::string_view, 7> kNames{
      "generation_config.json",  "spiece.model",      "vocab.json",         "merges.txt",
      "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};
  return name.starts_with("tokenizer") || std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace echelon::checkpoint
