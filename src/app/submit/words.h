#pragma once
#include <string>
#include <string_view>

/// Which texts may enter a job script. Everything that a user or a recipe brings goes through checked(): a
/// list of what is allowed, so that no shell, no `#SBATCH` line and no list of Slurm's can read more into it.
namespace echelon::submit {

enum class Word {
  kJobName,     ///< letters, digits, . _ -
  kName,        ///< account, QOS: also @
  kNames,       ///< partitions: names with commas between them
  kNodes,       ///< a list of nodes: "n[1-3,7],m2"
  kConstraint,  ///< features with & | * ( ) [ ] : , between them
  kGres,        ///< "gpu:h100:8,lustre"
  kImage,       ///< of a container: a file, or "docker://registry#name:tag"
  kPath,        ///< absolute; no comma or colon (mounts), no percent (Slurm's file names)
  kMounts,      ///< absolute paths "FROM:TO[:ro]" with commas between them
  kProgram,     ///< a path, or a name to be found in PATH
};

/// `text`, when it is such a word of at most 1,024 characters that does not start like an option. Else throws
/// Error(kUsage): "<what> is '...': a character that ..., expected ...". `what`: "--partition", "run.dir".
[[nodiscard]] const std::string& checked(Word word, std::string_view what, const std::string& text);

/// A checked text in double quotes for bash; a {task} in it becomes the number of the array's task.
[[nodiscard]] std::string in_quotes(const std::string& checked_text);

/// Every {task} in `text` replaced: what a user writes for the number of an array's task.
[[nodiscard]] std::string with_task(std::string text, std::string_view replacement);

}  // namespace echelon::submit
