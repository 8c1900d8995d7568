#include "metrics/prometheus.h"

#include <algorithm>

#include "base/foreign_text.h"
#include "base/str.h"
#include "metrics/names.h"

namespace echelon::metrics {
namespace {

/// A text between the quotes of a label.
std::string label(const std::string& text) {
  return replace_all(replace_all(foreign_text(text), "\\", "\\\\"), "\"", "\\\"");
}

/// The last word of a value's tag, if the metric shows it under a label.
const char* word_of(const Name& name, const std::string& tag) {
  if (!tag.starts_with(name.place) || tag.size() == name.place.size()) return nullptr;
  const char* word = tag.c_str() + name.place.size();
  const bool wanted = name.words.empty() || std::ranges::find(name.words, word) != name.words.end();
  return wanted ? word : nullptr;
}

}  // namespace

std::string run_label(const std::filesystem::path& source) {
  return std::filesystem::absolute(source).lexically_normal().parent_path().filename().string();
}

std::string prometheus_page(const std::string& run, const Line& line) {
  std::string page;
  const std::string of_run = str("{run=\"", label(run), '"');
  for (const Name& name : names()) {
    std::string samples;
    for (const Value& value : line.values) {
      std::string more;
      if (name.label.empty()) {
        if (value.tag != name.place) continue;
      } else {
        const char* word = word_of(name, value.tag);
        if (word == nullptr) continue;
        more = str(',', name.label, "=\"", label(word), '"');
      }
      samples += str(name.metric, of_run, more, "} ", number_text(value.value), '\n');
    }
    if (samples.empty()) continue;
    page += str("# HELP ", name.metric, ' ', name.meaning, "\n# TYPE ", name.metric, " gauge\n", samples);
  }
  return page;
}

}  // namespace echelon::metrics
