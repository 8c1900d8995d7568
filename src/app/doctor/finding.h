#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::app::doctor {

/// From harmless to grave, so that the larger of two counts.
enum class Verdict {
  kOk,
  kUnknown,  ///< could not be examined here; the text says why
  kWarning,  ///< works, and will cost time or a run under circumstances that the text names
  kFault,    ///< a run fails or is badly slowed
};

/// "ok", "unknown", "warning", "fault".
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// What one check found.
struct Finding {
  std::string name;  ///< of the check; one of those in docs/doctor.md
  Verdict verdict = Verdict::kOk;
  std::string text;                ///< one sentence, with the numbers
  std::string advice;              ///< what to do; empty where there is nothing to do
  std::vector<std::string> nodes;  ///< those it names, each once
  nlohmann::ordered_json values = nlohmann::ordered_json::object();  ///< what was measured, for machines
};

[[nodiscard]] Finding ok(std::string name, std::string text);
[[nodiscard]] Finding unknown(std::string name, std::string text, std::string advice = "");
[[nodiscard]] Finding warning(std::string name, std::string text, std::string advice,
                              std::vector<std::string> nodes = {});
[[nodiscard]] Finding fault(std::string name, std::string text, std::string advice,
                            std::vector<std::string> nodes = {});

/// "1 fault", "2 faults".
[[nodiscard]] std::string counted(std::size_t count, const char* what);

/// "n0, n1 and 3 more": a list of any length in a sentence.
[[nodiscard]] std::string listed(const std::vector<std::string>& names, std::size_t most = 8);

}  // namespace echelon::app::doctor
