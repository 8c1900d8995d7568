#include "checkpoints_tool/convert/conversion.h"

#include "base/checksum/crc32c.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/status_line.h"
#include "checkpoint/format/json.h"
#include "checkpoints_tool/convert/assembly.h"
#include "checkpoints_tool/convert/byte_size.h"
#include "checkpoints_tool/convert/resumable_output.h"
#include "checkpoints_tool/interrupt.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;

// Equal texts mean equal output: the headers contain all names, types, shapes and offsets.
std::string identity_of(const Reader& reader, const Conversion& conversion) {
  checkpoint::Json json = {{"program", ECHELON_VERSION},   {"step", reader.step()},
                           {"save_id", reader.save_id()},  {"options", conversion.options},
                           {"window_bytes", kWindowBytes}, {"files", checkpoint::Json::array()}};
  for (const OutputFile& file : conversion.plan.files) {
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"head_crc32c", checkpoint::checksum_text(crc32c(file.head))}});
  }
  return checkpoint::canonical_text(json);
}

void write_small_files(const Reader& reader, const Conversion& conversion, const fs::Path& folder) {
  for (const auto& [name, text] : conversion.texts) fs::publish_file(folder / name, text, Code::kCheckpoint);
  for (const std::string& name : conversion.attachments)
    fs::publish_file(folder / name, reader.attachment(name), Code::kCheckpoint);
}

void name_strangers(const ResumableOutput& output) {
  for (const fs::Path& folder : output.strangers()) {
    const std::string worker = worker_in(folder);
    status_line::print_above(
        str("note: '", terminal_text(folder.string()),
            "' is the unfinished output of another checkpoint, version or set of options; ",
            worker.empty() ? "remove it unless you want to continue that conversion"
                           : str(terminal_text(worker), " works there, and whoever is second will fail"),
            '\n'));
  }
}

}  // namespace

void convert_checkpoint(const TensorSource& source, const Conversion& conversion,
                        const ConversionLimits& limits) {
  const Reader& reader = source.reader();
  const Workers workers =
      workers_within(parse_byte_size(limits.memory, "--mem"), limits.jobs, conversion.plan);
  ResumableOutput output(conversion.output, reader.folder(), identity_of(reader, conversion),
                         limits.allow_foreign_folder);
  name_strangers(output);
  const bool one_file = conversion.plan.files.front().name.empty();
  try {
    if (!one_file) output.make_folder(output.output());
    Journal journal(output.journal(), identity_of(reader, conversion));
    Progress progress(conversion.doing);
    assemble(source, conversion.plan, output.output(), journal, workers, progress);
    if (!one_file) {
      write_small_files(reader, conversion, output.output());
      fs::fsync_directory(output.output(), Code::kCheckpoint);
    }
  } catch (const Interrupted& interrupted) {
    output.keep();
    throw Interrupted{interrupted.signal, str("the same command continues from here; to start over, remove '",
                                              output.folder().string(), "'")};
  }
  output.publish();
}

}  // namespace echelon::tool
