#include "app/doctor/report.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/terminal/standard_output.h"

namespace echelon::app::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

Json json_of(const Finding& finding) {
  return {{"name", finding.name},   {"verdict", name_of(finding.verdict)},
          {"text", finding.text},   {"advice", finding.advice},
          {"nodes", finding.nodes}, {"values", finding.values}};
}

}  // namespace

void Report::add(Finding finding) {
  findings_.push_back(std::move(finding));
}

void Report::add(std::vector<Finding> findings) {
  for (Finding& finding : findings) add(std::move(finding));
}

std::vector<std::string> Report::names_of(Verdict verdict) const {
  std::vector<std::string> names;
  for (const Finding& finding : findings_)
    if (finding.verdict == verdict) names.push_back(finding.name);
  return names;
}

std::string Report::text(double elapsed_s) const {
  std::size_t width = 0;
  for (const Finding& finding : findings_) width = std::max(width, finding.name.size());
  std::ostringstream out;
  for (const Finding& finding : findings_) {
    out << std::left << std::setw(9) << name_of(finding.verdict) << std::setw(static_cast<int>(width) + 2)
        << finding.name << finding.text << '\n';
    if (!finding.advice.empty()) out << std::string(width + 11, ' ') << "-> " << finding.advice << '\n';
  }
  out << "doctor " << scope_ << ": " << counted(names_of(Verdict::kFault).size(), "fault") << ", "
      << counted(names_of(Verdict::kWarning).size(), "warning") << ", " << names_of(Verdict::kUnknown).size()
      << " unknown, " << names_of(Verdict::kOk).size() << " ok in " << rounded(elapsed_s, 1) << " s\n";
  return out.str();
}

std::string Report::json(double elapsed_s) const {
  Json checks = Json::array();
  std::set<std::string> exclude;
  Verdict worst = Verdict::kOk;
  for (const Finding& finding : findings_) {
    checks.push_back(json_of(finding));
    worst = std::max(worst, finding.verdict);
    if (finding.verdict == Verdict::kFault) exclude.insert(finding.nodes.begin(), finding.nodes.end());
  }
  const Json object{{"schema", kSchema},         {"scope", scope_},
                    {"verdict", name_of(worst)}, {"elapsed_s", rounded(elapsed_s, 1)},
                    {"exclude", exclude},        {"checks", checks}};
  return json_text(object) + "\n";
}

void Report::finish(bool as_json) const {
  const double elapsed_s = steady_now_s() - began_s_;
  std::cout << (as_json ? json(elapsed_s) : text(elapsed_s));
  finish_standard_output();
  const std::vector<std::string> faults = names_of(Verdict::kFault);
  if (faults.empty()) return;
  throw Error(Code::kEnvironment, "doctor ", scope_, " found ", counted(faults.size(), "fault"), " (",
              listed(faults), "): do what the report says and run it again");
}

}  // namespace echelon::app::doctor
