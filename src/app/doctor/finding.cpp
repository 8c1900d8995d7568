#include "app/doctor/finding.h"

#include <algorithm>
#include <array>

#include "base/str.h"

namespace echelon::app::doctor {
namespace {

Finding make(Verdict verdict, std::string name, std::string text, std::string advice,
             std::vector<std::string> nodes) {
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return {.name = std::move(name),
          .verdict = verdict,
          .text = std::move(text),
          .advice = std::move(advice),
          .nodes = std::move(nodes)};
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 4> kNames{"ok", "unknown", "warning", "fault"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

Finding ok(std::string name, std::string text) {
  return make(Verdict::kOk, std::move(name), std::move(text), "", {});
}

Finding unknown(std::string name, std::string text, std::string advice) {
  return make(Verdict::kUnknown, std::move(name), std::move(text), std::move(advice), {});
}

Finding warning(std::string name, std::string text, std::string advice, std::vector<std::string> nodes) {
  return make(Verdict::kWarning, std::move(name), std::move(text), std::move(advice), std::move(nodes));
}

Finding fault(std::string name, std::string text, std::string advice, std::vector<std::string> nodes) {
  return make(Verdict::kFault, std::move(name), std::move(text), std::move(advice), std::move(nodes));
}

Finding Complaints::judge(Verdict verdict, std::string name, std::string if_none, std::string advice) const {
  if (none()) return ok(std::move(name), std::move(if_none));
  constexpr std::size_t kMost = 4;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(texts.size(), kMost));
  const std::string more = texts.size() > kMost ? str("; and ", texts.size() - kMost, " more") : "";
  return make(verdict, std::move(name), join({texts.begin(), texts.begin() + shown}, "; ") + more,
              std::move(advice), nodes);
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return join(names, ", ");
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(most);
  return str(join({names.begin(), end}, ", "), " and ", names.size() - most, " more");
}

}  // namespace echelon::app::doctor
