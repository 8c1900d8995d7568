#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echelon::app::doctor {

/// Ordered by gravity, so the larger of two verdicts is the graver.
enum class Verdict {
  kOk,
  kUnknown,  ///< could not be checked here; the text says why
  kWarning,  ///< works, but costs time or may end a run in a case that the text names
  kFault,    ///< a run fails or is much slower
};

/// "ok", "unknown", "warning", "fault".
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// The result of one check.
struct Finding {
  std::string name;  ///< name of the check; listed in docs/doctor.md
  Verdict verdict = Verdict::kOk;
  std::string text;                ///< one sentence with the measured numbers
  std::string advice;              ///< what to do; may be empty
  std::vector<std::string> nodes;  ///< the nodes the finding names, each once
  nlohmann::ordered_json values = nlohmann::ordered_json::object();  ///< the measurements, for programs
};

[[nodiscard]] Finding ok(std::string name, std::string text);
[[nodiscard]] Finding unknown(std::string name, std::string text, std::string advice = "");
[[nodiscard]] Finding warning(std::string name, std::string text, std::string advice,
                              std::vector<std::string> nodes = {});
[[nodiscard]] Finding fault(std::string name, std::string text, std::string advice,
                            std::vector<std::string> nodes = {});

/// Complaints about nodes or ranks: the parts of a sentence, and the nodes it names.
struct Complaints {
  std::vector<std::string> texts;
  std::vector<std::string> nodes;
  void add(const std::string& node, std::string text) {
    texts.push_back(std::move(text));
    nodes.push_back(node);
  }
  [[nodiscard]] bool none() const { return texts.empty(); }
  /// ok(name, if_none), or the first few complaints under `verdict`.
  [[nodiscard]] Finding judge(Verdict verdict, std::string name, std::string if_none,
                              std::string advice) const;
};

/// A list for a sentence, with at most `most` names: "n0, n1 and 3 more".
[[nodiscard]] std::string listed(const std::vector<std::string>& names, std::size_t most = 8);

}  // namespace echelon::app::doctor
