#include "data/prepared.h"

#include <filesystem>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "text/json_field.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kLargestManifest = std::uint64_t{1} << 20;
constexpr std::size_t kMostEnds = 1000;

void add_turn_ends(const std::filesystem::path& manifest, std::set<std::int32_t>& ends) {
  try {
    const std::string text = fs::read_file(manifest, kLargestManifest, Code::kData);
    const nlohmann::json json = parse_foreign_json(text, manifest.string(), Code::kData);
    const JsonField chat = JsonField(json, manifest.string()).at("chat");
    for (const JsonField& id : chat.at(kTurnEndIds).items(kMostEnds))
      ends.insert(id.integer(std::numeric_limits<std::int32_t>::max()));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): not made by this version
  }
}

}  // namespace

const std::string& first_file(const DataOptions& options) {
  return options.mixture.empty() ? options.path : options.mixture.front().first;
}

std::vector<std::int32_t> trained_turn_ends(const DataOptions& options) {
  std::vector<std::string> files{first_file(options)};
  for (const auto& [path, weight] : options.mixture) files.push_back(path);
  std::set<std::int32_t> ends;
  for (const std::string& file : files)
    add_turn_ends(std::filesystem::path(file).parent_path() / "prepare.json", ends);
  return {ends.begin(), ends.end()};
}

}  // namespace echelon::data
