#include <sys/stat.h>

#include <chrono>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/folder_size.h"

namespace echelon::tool {
namespace {

struct Row {
  checkpoint::Found found;
  std::string state;
  std::uint64_t bytes = 0;
  std::size_t ranks = 0;
  std::int64_t age_s = 0;  ///< since COMMIT, or since the last change of the folder
};

Row row_of(const checkpoint::Found& found) {
  Row row{.found = found, .state = "committed", .bytes = folder_size(found.folder)};
  if (!found.committed) row.state = found.problem.empty() ? "uncommitted" : "DAMAGED";
  if (found.committed) row.ranks = found.manifest->shards.size();
  struct stat info {};
  if (::stat((found.folder / "COMMIT").c_str(), &info) == 0 || ::stat(found.folder.c_str(), &info) == 0) {
    row.age_s = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()) - info.st_mtime;
  }
  return row;
}

std::string age_text(std::int64_t seconds) {
  if (seconds < 120) return str(seconds, " s");
  if (seconds < 7200) return str(seconds / 60, " min");
  if (seconds < 172800) return str(seconds / 3600, " h");
  return str(seconds / 86400, " d");
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json json = {{"folder", row.found.folder.string()},
                                   {"step", row.found.step},
                                   {"state", row.state == "DAMAGED" ? "damaged" : row.state},
                                   {"bytes", row.bytes},
                                   {"age_s", row.age_s}};
    if (row.ranks != 0) json["ranks"] = row.ranks;
    if (!row.found.problem.empty()) json["problem"] = row.found.problem;
    list.push_back(std::move(json));
  }
  std::cout << json_text(list) << '\n';
}

}  // namespace

void list_checkpoints(const LsOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.folder, ignored)) {
    throw Error(Code::kUsage, "no folder '", options.folder.string(), "'");
  }
  std::vector<Row> rows;
  if (checkpoint::is_step_folder(options.folder)) {
    const bool slash = options.folder.filename().empty();  // "step-000000001.0a1b2c3d/"
    rows.push_back(row_of(checkpoint::look_at(slash ? options.folder.parent_path() : options.folder)));
  } else {
    checkpoint::warn_of_linked_steps(checkpoint::checkpoints_folder(options.folder));
    for (const auto& found : checkpoint::list(checkpoint::checkpoints_folder(options.folder)))
      rows.push_back(row_of(found));
  }
  if (options.json) return print_json(rows);
  if (rows.empty()) {
    std::cout << "no checkpoints in '" << options.folder.string() << "'\n";
    return;
  }
  std::cout << std::right << std::setw(12) << "STEP"
            << "  " << std::left << std::setw(12) << "STATE" << std::right << std::setw(6) << "RANKS"
            << std::setw(12) << "SIZE" << std::setw(10) << "AGE"
            << "  FOLDER\n";
  for (const Row& row : rows) {
    std::cout << std::right << std::setw(12) << row.found.step << "  " << std::left << std::setw(12)
              << row.state << std::right << std::setw(6) << (row.ranks == 0 ? "-" : std::to_string(row.ranks))
              << std::setw(12) << human_bytes(row.bytes) << std::setw(10) << age_text(row.age_s) << "  "
              << row.found.folder.filename().string() << '\n';
    if (!row.found.problem.empty()) std::cout << std::string(14, ' ') << row.found.problem << '\n';
  }
}

}  // namespace echelon::tool
