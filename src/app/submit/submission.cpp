#include "app/submit/submission.h"

#include <algorithm>
#include <cerrno>

#include "app/submit/sweep.h"
#include "app/submit/words.h"
#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/foreign_text.h"
#include "base/process/process.h"
#include "base/str.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/json_value.h"

namespace echelon::submit {
namespace {

namespace stdfs = std::filesystem;

constexpr int kMostSubmissions = 1'000'000;

/// Absolute path. Normalized only if it contains no "..", because "x/.." is not the parent folder if x is a
/// link.
std::string absolute(const stdfs::path& path) {
  const stdfs::path whole = stdfs::absolute(path);
  const bool climbs = std::ranges::find(whole, "..") != whole.end();
  std::string text = climbs ? whole.string() : whole.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

/// run.dir with {task} not yet replaced; empty if it contains none.
std::string run_dir_of_tasks(const Options& options) {
  std::string from_name;
  std::string from_dir;
  for (const std::string& override : options.overrides) {
    if (override.starts_with("run.name=")) from_name = "runs/" + override.substr(9);
    if (override.starts_with("run.dir=")) from_dir = override.substr(8);
  }
  const std::string dir = from_dir.empty() ? from_name : from_dir;
  return dir.find("{task}") == dir.npos ? "" : dir;
}

/// {task} is replaced in overrides only. In the recipe's own text it would remain, while the job script,
/// which replaces it in the folder's pattern, would look for another folder.
void refuse_tasks_in(const LoadedRecipe& loaded) {
  for (const recipe::Key& key : recipe::keys()) {
    const std::string value = json_text(recipe::json_value(key, loaded.recipe), -1);
    if (value.find("{task}") == value.npos) continue;
    throw Error(
        Code::kUsage, loaded.origins.at(key.path), ": ", key.path, " is ", printable(value),
        ": {task} is replaced by the task's number in overrides only; remove it from the recipe and add ",
        key.path, "=... to the command");
  }
}

/// `more`: one more override; empty: none.
LoadedRecipe load(const Options& options, const std::string& task, const std::string& more) {
  std::vector<std::string> overrides;
  for (const std::string& override : options.overrides) {
    if (task.empty() && override.find("{task}") != override.npos)
      throw Error(
          Code::kUsage, "'", printable(override),
          "' names the task of an array, but this job has no array: add --array, or leave {task} out");
    overrides.push_back(with_task(override, task));
  }
  if (!more.empty()) overrides.push_back(more);
  const auto read = [&] {
    LoadedRecipe loaded = load_recipe(options.recipe, overrides);
    refuse_tasks_in(loaded);
    return loaded;
  };
  return task.empty() ? read() : in_context(str("task ", task), read);
}

using Runs = std::vector<Submission::Run>;

/// All tasks continue one run, one after another: only %1 allows that, and their recipes must be equal.
void check_pieces(const Options& options, const std::vector<std::int64_t>& tasks, const Runs& runs) {
  const bool one_run =
      std::ranges::all_of(runs, [&](const Submission::Run& run) { return run.dir == runs[0].dir; });
  if (!one_run || !options.array.ends_with("%1")) {
    throw Error(Code::kUsage, "--array ", options.array, ": its tasks would train in the run folder '",
                runs[0].dir.string(),
                "' at the same time; give each its own with {task} in run.dir, or run them "
                "one after the other with --array ",
                options.array.substr(0, options.array.find('%')), "%1");
  }
  for (std::size_t n = 1; n < runs.size(); ++n) {
    if (runs[n].recipe == runs[0].recipe) continue;
    throw Error(Code::kUsage, "--array ", options.array, ": the recipe of task ", tasks[n],
                " differs from that of task ", tasks[0],
                ", but both continue the same run: put {task} into run.dir too");
  }
}

/// Each task has its own run. Its folder must be the one that the job script derives from the pattern.
void check_runs(const std::string& pattern, const std::vector<std::int64_t>& tasks, const Runs& runs) {
  for (std::size_t n = 0; n < tasks.size(); ++n) {
    const std::string expected = absolute(with_task(pattern, std::to_string(tasks[n])));
    if (runs[n].dir == expected) continue;
    throw Error(Code::kUsage, "task ", tasks[n], " has the run folder '", runs[n].dir.string(), "' and not '",
                expected, "': write {task} into run.dir, without quotes");
  }
}

std::string program_of(const Options& options) {
  if (!options.program.empty()) {
    const bool here = options.container_image.empty();
    if (here && find_program(options.program).empty())
      throw Error(Code::kEnvironment, "--program '", printable(options.program),
                  "' does not exist or is not executable; expected one that all nodes see");
    return here && options.program.find('/') != options.program.npos ? absolute(options.program)
                                                                     : options.program;
  }
  return options.container_image.empty() ? own_program().string() : "echelon";
}

std::string next_submission(const std::vector<Submission::Run>& runs) {
  for (int number = 1; number < kMostSubmissions; ++number) {
    const std::string name = str("submissions/", number);
    const bool taken = std::ranges::any_of(runs, [&](const Submission::Run& run) {
      std::error_code ignored;
      return stdfs::exists(stdfs::symlink_status(run.dir / name, ignored));
    });
    if (!taken) return name;
  }
  throw Error(Code::kUsage, "'", runs[0].dir.string(), "/submissions' is full: remove old ones");
}

/// The first path in a folder that is local to each node, or empty.
std::string not_shared(const Place& place) {
  for (const std::string* path : {&place.run_dir, &place.work_dir, &place.supervisor, &place.program}) {
    if (path->starts_with("/tmp/") || path->starts_with("/dev/shm/")) return *path;
  }
  return "";
}

/// The options with numbers in place of a sweep's values, and with a run folder for each of its tasks.
Options as_numbers(const Options& given, const Sweep& sweep) {
  Options options = given;
  options.array = sweep.array;
  if (run_dir_of_tasks(given).empty())
    options.overrides.push_back(
        str("run.dir=", load(given, "0", sweep.overrides.front()).recipe.run.dir, "-{task}"));
  return options;
}

}  // namespace

Submission prepare(const Options& given, const RecipeCheck& also) {
  Submission submission;
  const std::optional<Sweep> sweep = sweep_in(given.array);
  const Options options = sweep ? as_numbers(given, *sweep) : given;
  if (sweep) submission.swept = sweep->overrides;
  std::vector<std::int64_t> tasks;
  if (!options.array.empty()) tasks = array_tasks(options.array);
  Runs& runs = submission.runs;
  std::string name = options.job_name;
  for (std::size_t n = 0; n < std::max<std::size_t>(1, tasks.size()); ++n) {
    const LoadedRecipe loaded =
        load(options, tasks.empty() ? "" : std::to_string(tasks[n]), sweep ? sweep->overrides.at(n) : "");
    if (n == 0) tell_which(loaded);
    if (also) also(loaded);
    const Recipe& recipe = loaded.recipe;
    submission.job = allocate(options, recipe);
    runs.push_back({absolute(recipe.run.dir), str(kKeepsOrigins, to_yaml(recipe, &loaded.origins)),
                    recipe.run.allow_foreign_folder});
    if (name.empty()) name = recipe.run.name;
  }
  const std::string pattern = tasks.empty() ? "" : run_dir_of_tasks(options);
  if (!pattern.empty()) {
    check_runs(pattern, tasks, runs);
  } else if (!tasks.empty()) {
    check_pieces(options, tasks, runs);
    // All tasks share one run: its files are written once.
    runs.resize(1);
  }
  submission.place = {.work_dir = stdfs::current_path().string(),
                      .run_dir = pattern.empty() ? runs[0].dir.string() : absolute(pattern),
                      .submission = next_submission(runs),
                      .supervisor = own_program().string(),
                      .program = program_of(options),
                      .job_name = name,
                      .allow_foreign_folder = std::ranges::all_of(
                          runs, [](const Submission::Run& run) { return run.allow_foreign_folder; })};
  submission.script = render_script(options, submission.job, submission.place);
  const std::string local = not_shared(submission.place);
  if (!local.empty() && submission.job.note.empty())
    submission.job.note =
        str("'", local, "' is in a folder that each node has for itself: the job might not find it there");
  return submission;
}

void keep(const Submission& submission) {
  for (const Submission::Run& run : submission.runs) {
    in_context(str("run folder (run.dir) '", run.dir.string(), "'"), [&] {
      for (const char* name : {"", "logs", "submissions"}) {
        fs::make_directories(run.dir / name, Code::kEnvironment);
        if (!run.allow_foreign_folder)
          fs::require_unshared_folder(run.dir / name, Code::kUsage, "set run.allow_foreign_folder=true");
      }
      const stdfs::path folder = run.dir / submission.place.submission;
      // mkdir() fails if the folder exists, so two simultaneous submits cannot use the same number.
      if (fs::disk().mkdir(folder.c_str(), 0755) != 0)
        throw Error(Code::kUsage, "cannot make '", folder.string(), "': ",
                    errno == EEXIST ? "another submit has just made it; try again" : fs::reason(errno));
      fs::publish_file(folder / "recipe.yaml", run.recipe, Code::kEnvironment);
      fs::publish_file(folder / "job.sbatch", submission.script, Code::kEnvironment);
    });
  }
}

stdfs::path Submission::script_path() const {
  return runs[0].dir / place.submission / "job.sbatch";
}

stdfs::path Submission::log_path(const std::string& number) const {
  const bool array = script.find("\n#SBATCH --array=") != script.npos;
  return runs[0].dir / (array ? str("logs/slurm-", number, "_*.out") : str("logs/slurm-", number, ".out"));
}

}  // namespace echelon::submit
