#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/read/salvage.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/partial_output.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

using checkpoint::Salvage;
using checkpoint::TensorInfo;
using Json = nlohmann::ordered_json;

Json report_of(const Salvage& found) {
  const auto& manifest = found.contents.manifest;
  Json json = {{"folder", found.contents.folder.string()},
               {"step", manifest.step},
               {"save_id", manifest.save_id},
               {"problem", found.problem},
               {"lost_shards", found.lost_shards},
               {"intact", Json::array()},
               {"lost", Json::array()}};
  for (const TensorInfo& tensor : manifest.tensors)
    json["intact"].push_back(
        {{"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}});
  for (const auto& tensor : found.lost)
    json["lost"].push_back({{"name", tensor.name}, {"problem", tensor.problem}});
  return json;
}

void print_text(const Salvage& found) {
  if (!found.problem.empty()) std::cout << found.problem << '\n';
  for (const std::string& problem : found.lost_shards) std::cout << problem << '\n';
  for (const TensorInfo& tensor : found.contents.manifest.tensors) {
    std::cout << "intact  " << tensor.name << "  " << name_of(tensor.dtype) << ' '
              << checkpoint::shape_text(tensor.shape) << '\n';
  }
  for (const auto& tensor : found.lost)
    std::cout << "LOST    " << tensor.name << "  " << tensor.problem << '\n';
}

void write_intact(const Salvage& found, const SalvageOptions& options, const Path& report_path) {
  const checkpoint::Reader reader(found.contents);
  std::vector<OutputTensor> tensors;
  for (const TensorInfo& tensor : reader.tensors()) tensors.push_back(whole_tensor(tensor));
  Conversion conversion{.doing = "writing", .options = "salvage", .output = options.output};
  conversion.plan.files.push_back(plan_hdf5(std::move(tensors), reader.step()));
  fs::NewFile report(partial_name(report_path), Code::kCheckpoint);
  report.append(json_text(report_of(found)) + "\n");
  report.finish();
  convert_checkpoint(reader, conversion, options.limits);
  publish_output(report.path(), report_path);
  report.keep();
}

}  // namespace

void salvage_tensors(const SalvageOptions& options) {
  Path report_path;
  if (!options.output.empty()) {
    (void)checked_output(options.output, options.folder);  // before hours of reading
    report_path = checked_output(options.output.string() + ".json", options.folder);
  }
  const checkpoint::FolderLease lease(options.folder);
  Salvage found;
  {
    Progress progress("reading");
    found = checkpoint::salvage(options.folder,
                                [&](std::uint64_t done, std::uint64_t total) { progress.show(done, total); });
  }
  checkpoint::warn_without(lease);  // only now: for a folder without a checkpoint the error is enough
  if (options.json)
    std::cout << json_text(report_of(found)) << '\n';
  else
    print_text(found);
  const std::size_t intact = found.contents.manifest.tensors.size();
  if (!options.output.empty() && intact != 0) {
    write_intact(found, options, report_path);
    if (!options.json)
      std::cout << "wrote the intact ones to '" << options.output.string() << "', the report to '"
                << report_path.string() << "'\n";
  }
  if (found.lost.empty() && found.lost_shards.empty()) return;
  throw Error(Code::kCheckpoint, "of '", options.folder.string(), "' ", intact, " tensors are intact, ",
              found.lost.size(), " known ones are lost",
              found.lost_shards.empty() ? "" : "; shards are lost too");
}

}  // namespace echelon::tool
