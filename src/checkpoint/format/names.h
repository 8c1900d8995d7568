#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Allowed names in a checkpoint. Every name that comes from a file is checked here before it is used.
namespace echelon::checkpoint {

inline constexpr std::string_view kManifestFile = "MANIFEST.json";
inline constexpr std::string_view kCommitFile = "COMMIT";
inline constexpr std::string_view kUnfinished =
    ".part";  ///< behind the name of a shard that is being written
inline constexpr int kMaxRanks = 99999;
inline constexpr std::int64_t kMaxStep = 999999999999;

/// "step-000001200.a1b2c3d4": the folder of one save attempt.
[[nodiscard]] std::string step_folder_name(std::int64_t step, std::string_view save_id);
/// Eight random hex digits; rank 0 makes one per attempt and sends it to all.
[[nodiscard]] std::string new_save_id();

/// What the name of a step folder says.
struct StepName {
  std::int64_t step = 0;
  std::string save_id;
};
/// Empty when `name` is not exactly what step_folder_name() makes.
[[nodiscard]] std::optional<StepName> parse_step_folder(std::string_view name);

[[nodiscard]] bool is_save_id(std::string_view text);  ///< eight lower-case hex digits

/// "shard-00003-of-00016.h5"
[[nodiscard]] std::string shard_file_name(int rank, int ranks);
/// "FAILED-00003": the file in which a rank says why its part of a save failed.
[[nodiscard]] std::string failure_file_name(int rank);
/// At least `digits` digits, with zeros in front.
[[nodiscard]] std::string with_zeros(std::int64_t number, int digits);

/// Why `name` cannot name a tensor, or "". Allowed: [A-Za-z0-9._-] parts separated by '/', at most 255 bytes.
[[nodiscard]] std::string tensor_name_problem(std::string_view name);

/// Why `name` cannot name an attachment, or "". Allowed: [A-Za-z0-9._-], at most 100 bytes, no reserved name.
[[nodiscard]] std::string attachment_name_problem(std::string_view name);

/// Does an attachment of this name belong to the weights as Hugging Face keeps them: a tokenizer's file, or
/// generation_config.json?
[[nodiscard]] bool is_companion_file(std::string_view name);

}  // namespace echelon::checkpoint
