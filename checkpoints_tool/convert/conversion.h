#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "checkpoints_tool/convert/output_plan.h"
#include "checkpoints_tool/convert/tensor_source.h"

namespace echelon::tool {

/// A planned conversion of a checkpoint: everything about the output, before any work.
struct Conversion {
  std::string doing;    ///< "consolidating", for the progress bar
  std::string options;  ///< what the user asked for, in words
  fs::Path output;
  OutputPlan plan;
  std::map<std::string, std::string> texts;  ///< further files of an output folder: name -> content
  std::vector<std::string> attachments;      ///< and those copied from the checkpoint byte for byte
};

/// Resources and permissions of a conversion, from the command line.
struct ConversionLimits {
  bool allow_foreign_folder = false;  ///< go on in a partial output of another user
  std::string memory = "256M";        ///< of the whole process, its windows for reading and writing included
  int jobs = 0;                       ///< worker threads; 0: one for each core, at most 4
};

/// Carries it out: the output appears complete and durable, or not at all. A killed or interrupted run is
/// resumed by the next one with the same checkpoint and options. Throws Error(kUsage, kCheckpoint) and
/// Interrupted.
void convert_checkpoint(const TensorSource& source, const Conversion& conversion,
                        const ConversionLimits& limits);

}  // namespace echelon::tool
