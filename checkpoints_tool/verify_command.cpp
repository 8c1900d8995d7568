#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/read/verify.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

using checkpoint::VerifyReport;

void print_json(const Path& folder, const VerifyOptions& options, const VerifyReport& report) {
  nlohmann::ordered_json json = {{"folder", foreign_text(folder.string())},
                                 {"ok", report.damages.empty()},
                                 {"mode", options.quick ? "quick" : "deep"},
                                 {"step", report.step},
                                 {"save_id", report.save_id},
                                 {"bytes_checked", report.bytes_checked},
                                 {"damages", nlohmann::ordered_json::array()}};
  for (const auto& damage : report.damages) {
    nlohmann::ordered_json one = {{"file", foreign_text(damage.file)}};
    if (damage.rank >= 0) one["rank"] = damage.rank;
    if (!damage.tensor.empty()) {
      one["tensor"] = foreign_text(damage.tensor);
      one["element_begin"] = damage.element_begin;
      one["element_end"] = damage.element_end;
    }
    if (damage.byte_end != 0) {
      one["byte_begin"] = damage.byte_begin;
      one["byte_end"] = damage.byte_end;
    }
    one["problem"] = foreign_text(damage.problem);
    json["damages"].push_back(std::move(one));
  }
  std::cout << json_text(json) << '\n';
}

}  // namespace

void verify_checkpoint(const VerifyOptions& options) {
  const Path folder = checkpoint::newest_commit(options.checkpoint);
  const checkpoint::FolderLease lease(folder);
  checkpoint::warn_without(lease);
  VerifyReport report;
  {
    Progress progress("verifying");
    report = checkpoint::verify(
        folder, options.quick ? checkpoint::VerifyDepth::kQuick : checkpoint::VerifyDepth::kDeep,
        [&](std::uint64_t done, std::uint64_t total) { progress.show(done, total); });
  }
  if (options.json) {
    print_json(folder, options, report);
  } else {
    for (const auto& damage : report.damages) std::cout << foreign_text(damage.problem) << '\n';
  }
  if (!report.damages.empty()) {
    throw Error(Code::kCheckpoint, "checkpoint '", folder.string(), "' is damaged in ",
                counted(report.damages.size(), "place"));
  }
  if (!options.json) {
    std::cout << "ok: '" << foreign_text(folder.string()) << "', step " << report.step << ", "
              << human_bytes(report.bytes_checked)
              << (options.quick ? " of metadata checked; run without --quick to check the tensors\n"
                                : " checked\n");
  }
}

}  // namespace echelon::tool
