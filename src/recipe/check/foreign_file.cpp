#include "recipe/check/foreign_file.h"

#include <algorithm>
#include <array>

#include "base/str.h"

namespace echelon::recipe {
namespace {

struct Mark {
  enum class Place { kBegin, kLineBegin, kAnywhere } place;
  std::string_view text;
  std::string_view is;
  std::string_view advice;
};

constexpr std::string_view kWrite =
    "; write a recipe: `echelon recipes ls` lists examples, docs/recipe.md all keys";
constexpr std::string_view kTranslate = "; translate it: echelon recipes from FILE";
constexpr std::string_view kTranslateToml = "; translate torchtitan's: echelon recipes from FILE.toml";
constexpr std::string_view kImport =
    "; name its folder in a recipe's model.from, or make a checkpoint of it with echelon-ckpt import";
constexpr std::string_view kScript =
    "a script, such as a Slurm job's; echelon submit writes one from a recipe";
constexpr std::string_view kArguments = "Hugging Face's TrainingArguments";

/// The first that fits counts.
constexpr std::array kMarks{
    Mark{Mark::Place::kBegin, "PK\x03\x04", "an archive, such as PyTorch's weights", kImport},
    Mark{Mark::Place::kBegin, "\x89HDF", "an HDF5 file, such as a shard of a checkpoint", kWrite},
    Mark{Mark::Place::kBegin, "#!", kScript, kWrite},
    Mark{Mark::Place::kLineBegin, "#SBATCH ", kScript, kWrite},
    Mark{Mark::Place::kLineBegin, "base_model:", "an axolotl configuration", kTranslate},
    Mark{Mark::Place::kLineBegin, "step_scheduler:", "a configuration of NeMo AutoModel", kTranslate},
    Mark{Mark::Place::kLineBegin, "per_device_train_batch_size:", kArguments, kTranslate},
    Mark{Mark::Place::kAnywhere, "\"zero_optimization\"", "a DeepSpeed configuration", kWrite},
    Mark{Mark::Place::kAnywhere, "\"per_device_train_batch_size\"", kArguments, kTranslate},
    Mark{Mark::Place::kAnywhere, "\"output_dir\"", kArguments, kTranslate},
    Mark{Mark::Place::kAnywhere, "\"model_type\"", "the config.json of a Hugging Face model", kImport},
};

bool fits(const Mark& mark, std::string_view text) {
  if (text.starts_with(mark.text)) return true;
  if (mark.place == Mark::Place::kBegin) return false;
  if (mark.place == Mark::Place::kAnywhere) return text.find(mark.text) != text.npos;
  return text.find(str('\n', mark.text)) != text.npos;
}

/// Eight bytes of length, then JSON.
bool is_safetensors(std::string_view text) {
  constexpr std::size_t kLength = 8;
  return text.size() > kLength && text[kLength] == '{' && text.substr(0, kLength).find('\0') != text.npos;
}

/// A line "[name]" or "[a.b]", and below it a line with " = ".
bool is_toml(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with('[') && line.ends_with(']') && line.find_first_of(",: ") == line.npos)
      return text.find(" = ", end) != text.npos;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::string foreign_file(std::string_view text) {
  if (is_safetensors(text)) return str("a safetensors file, which holds weights", kImport);
  if (is_toml(text)) return str("a TOML file, such as torchtitan's", kTranslateToml);
  const auto mark = std::ranges::find_if(kMarks, [&](const Mark& one) { return fits(one, text); });
  return mark == kMarks.end() ? "" : str(mark->is, mark->advice);
}

}  // namespace echelon::recipe
