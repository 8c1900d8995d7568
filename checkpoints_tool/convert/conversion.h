#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "checkpoint/read/reader.h"
#include "checkpoints_tool/convert/output_plan.h"

namespace echelon::tool {

/// A checkpoint in another form: everything about the output, nothing done yet.
struct Conversion {
  std::string doing;    ///< "consolidating", for the progress bar
  std::string options;  ///< what the user asked for, in words
  fs::Path output;
  OutputPlan plan;
  std::map<std::string, std::string> texts;  ///< further files of an output folder: name -> content
  std::vector<std::string> attachments;      ///< and those copied from the checkpoint byte for byte
};

/// What a conversion may use, as it was said on the command line.
struct ConversionLimits {
  bool allow_foreign_folder = false;  ///< go on in a partial output of another user
  std::string memory = "256M";        ///< of the whole process, its windows for reading and writing included
  int jobs = 0;                       ///< worker threads; 0: one for each core, at most 4
};

/// Carries it out: the output is there whole or not at all, durable. A run that was killed or interrupted is
/// taken up by the next one for the same checkpoint and options. Throws Error(kUsage, kCheckpoint) and
/// Interrupted.
void convert_checkpoint(const checkpoint::Reader& reader, const Conversion& conversion,
                        const ConversionLimits& limits);

}  // namespace echelon::tool
