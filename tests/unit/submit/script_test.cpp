#include "app/submit/script.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "app/submit/program.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "support/golden_table.h"
#include "support/places.h"
#include "support/temp_dir.h"
#include "unit/submit/requests.h"

namespace echelon::submit {
namespace {

const fs::Path kSource = test::source_dir();

constexpr std::string_view kFirstLine = "#!/usr/bin/env bash\n";

Options everything() {
  Options options = four_nodes();
  options.gpus_per_node = "h100:8";
  options.gres = "lustre";
  options.partition = "p5,p5en";
  options.account = "lab-7";
  options.qos = "normal";
  options.constraint = "[rack1|rack2]";
  options.exclude = "n[3-5],n9";
  options.dependency = "afterok:17:18";
  options.max_requeues = 0;
  options.container_image = "docker://nvcr.io#lab/echelon:1.0";
  options.container_mounts = "/data:/data:ro";
  return options;
}

Options by_apptainer() {
  Options options = four_nodes();
  options.gpus_per_node = "2";
  options.container_image = "/fsx/images/echelon.sif";
  return options;
}

Options sweep() {
  Options options = four_nodes();
  options.array = "0-3";
  return options;
}

struct Case {
  const char* name;
  Options options;
  std::int64_t gpus = 0;
  const char* run_dir = "/fsx/work/runs/smoke";
  const char* program = "/fsx/echelon/bin/echelon";

  [[nodiscard]] std::string script() const {
    Allocation job = eight_ranks();
    job.gpus_per_node = gpus;
    Place place = on_fsx();
    place.run_dir = run_dir;
    place.program = program;
    return render_script(options, job, place);
  }
};

std::vector<Case> cases() {
  return {{"simple", four_nodes()},
          {"everything", everything(), 8, "/elsewhere/runs/smoke", "echelon"},
          {"apptainer", by_apptainer(), 2, "/fsx/work/runs/smoke", "echelon"},
          {"sweep", sweep(), 0, "/fsx/work/runs/try-{task}"}};
}

TEST(JobScript, IsTheGoldenOne) {
  const fs::Path table = kSource / "tests/golden/submit/scripts.txt";
  std::set<std::string> names;
  for (const Case& c : cases()) {
    const std::string script = c.script();
    ASSERT_TRUE(script.starts_with(kFirstLine));
    const std::string rest = script.substr(kFirstLine.size());
    EXPECT_EQ(rest, test::golden(table, c.name, "", rest)) << c.name << " in " << table;
    names.insert(c.name);
  }
  for (const test::GoldenCase& golden : test::read_golden(table).cases)
    EXPECT_TRUE(names.contains(golden.name)) << golden.name << " in " << table << " belongs to no test";
}

TEST(JobScript, HasNothingThatShellcheckWouldChange) {
  const test::TempDir dir;
  for (const Case& c : cases()) {
    const fs::Path file = dir.path() / (std::string(c.name) + ".sbatch");
    std::ofstream(file) << c.script();
    for (const std::vector<std::string>& check :
         {std::vector<std::string>{"shellcheck", "--shell=bash", "--severity=info"}, {"bash", "-n"}}) {
      std::vector<std::string> command = check;
      command.push_back(file.string());
      const ProgramRun result = run_command(command);
      EXPECT_EQ(result.status, 0) << c.name << ": " << result.out << result.err;
    }
  }
}

TEST(JobScript, DirectivesAreWordsThatSlurmKnowsAndStandBeforeEverythingElse) {
  const std::set<std::string> known{
      "job-name",  "chdir",     "output",  "nodes",         "ntasks-per-node", "gpus-per-node",
      "gres",      "partition", "account", "qos",           "constraint",      "exclude",
      "time",      "signal",    "array",   "dependency",    "requeue",         "no-requeue",
      "open-mode", "exclusive", "mem",     "wait-all-nodes"};
  for (const Case& c : cases()) {
    std::istringstream lines(c.script());
    std::set<std::string> seen;
    bool code = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#SBATCH")) {
        ASSERT_TRUE(line.starts_with("#SBATCH --")) << line;
        const std::string name = line.substr(10, line.find('=') - 10);
        EXPECT_TRUE(known.contains(name)) << line;
        EXPECT_TRUE(seen.insert(name).second) << "twice: " << line;
        EXPECT_FALSE(code) << "after the first command, where sbatch does not look: " << line;
        EXPECT_EQ(line.find_first_of(" '\"\\$`", 10), line.npos) << line;
      }
      code = code || (!line.empty() && line[0] != '#');
    }
    for (const char* always :
         {"job-name", "chdir", "output", "nodes", "ntasks-per-node", "time", "signal", "open-mode"})
      EXPECT_TRUE(seen.contains(always)) << c.name << " " << always;
  }
}

/// The script run by bash, as a job with this variable.
ProgramRun run_by_bash(const Options& options, const Place& place, const char* variable) {
  const test::TempDir dir;
  const fs::Path file = dir.path() / "job.sbatch";
  std::ofstream(file) << render_script(options, eight_ranks(), place);
  return run_command({"env", variable, "bash", file.string()});
}

/// The words with which the script starts the supervisor, as bash understands them.
std::string as_bash_reads(const Options& options, Place place) {
  place.supervisor = "/bin/echo";
  return run_by_bash(options, place, "SLURM_ARRAY_TASK_ID=3").out;
}

TEST(JobScript, MeansToBashExactlyTheTextsItWasMadeFrom) {
  Options options = four_nodes();
  options.container_image = "./A-z_0+9.@:/#=b";
  options.container_mounts = "/A-z_0+9.@=b:/c:ro";
  Place place = on_fsx();
  place.run_dir = "/runs/A-z_0+9.@=b";
  place.program = "./A-z_0+9.@=b";
  const std::string numbers = "--max-requeues 100 --max-restarts 20 --spare-nodes 0 --max-same-step 3";
  EXPECT_EQ(as_bash_reads(options, place),
            str("supervise --run-dir /runs/A-z_0+9.@=b ", numbers,
                " --srun-option=--container-image=./A-z_0+9.@:/#=b "
                "--srun-option=--container-mounts=/fsx/work:/fsx/work,/runs/A-z_0+9.@=b:/runs/A-z_0+9.@=b,"
                "/A-z_0+9.@=b:/c:ro --srun-option=--container-workdir=/fsx/work -- ./A-z_0+9.@=b train "
                "/runs/A-z_0+9.@=b/submissions/1/recipe.yaml\n"));
  place.run_dir = "/runs/try-{task}";
  EXPECT_EQ(as_bash_reads(sweep(), place),
            str("supervise --run-dir /runs/try-3 ", numbers,
                " -- ./A-z_0+9.@=b train /runs/try-3/submissions/1/recipe.yaml\n"));
}

TEST(JobScript, SaysThatItsProgramIsMissingOnANode) {
  Place place = on_fsx();
  place.supervisor = "/no/such/echelon";
  const ProgramRun run = run_by_bash(four_nodes(), place, "SLURM_JOB_ID=17");

  EXPECT_EQ(run.status, 3);
  EXPECT_TRUE(run.err.starts_with("echelon: job 17 cannot start: /no/such/echelon does not exist on "))
      << run.err;
}

std::string refusal(const Options& options, const Place& place = on_fsx()) {
  return error_of([&] { return render_script(options, eight_ranks(), place); });
}

TEST(JobScript, RefusesHostileTextsWhereverTheyComeFrom) {
  const std::vector<std::pair<const char*, std::string Options::*>> texts{
      {"--gpus-per-node", &Options::gpus_per_node},
      {"--gres", &Options::gres},
      {"--partition", &Options::partition},
      {"--account", &Options::account},
      {"--qos", &Options::qos},
      {"--constraint", &Options::constraint},
      {"--exclude", &Options::exclude},
      {"--array", &Options::array},
      {"--dependency", &Options::dependency},
      {"--container-image", &Options::container_image}};
  const std::vector<std::pair<const char*, std::string Place::*>> places{
      {"the current folder", &Place::work_dir}, {"run.dir", &Place::run_dir},
      {"--program", &Place::program},           {"this program", &Place::supervisor},
      {"--job-name", &Place::job_name},         {"the submission's folder", &Place::submission}};
  for (const std::string text :
       {"$(id)", "`id`", "a b", "a\n#SBATCH --wrap=id", "a;id", "a\"b", "a'b", "a\\b"}) {
    for (const auto& [name, member] : texts) {
      Options options = four_nodes();
      options.*member = text;
      EXPECT_TRUE(refusal(options).starts_with(str("2: ", name))) << name << " " << text;
    }
    for (const auto& [name, member] : places) {
      Place place = on_fsx();
      place.*member = name[0] == '-' ? text : "/fsx/" + text;
      EXPECT_TRUE(refusal(four_nodes(), place).starts_with(str("2: ", name))) << name << " " << text;
    }
    Options options = by_apptainer();
    options.container_mounts = "/a:/b," + text;
    EXPECT_TRUE(refusal(options).starts_with("2: --container-mounts")) << text;
    options = by_apptainer();
    options.container_runtime = text;
    EXPECT_TRUE(refusal(options).starts_with("2: --container-runtime")) << text;
  }
}

TEST(JobScript, KnowsNoTaskOutsideOfAnArray) {
  Place place = on_fsx();
  place.run_dir = "/runs/try-{task}";
  EXPECT_TRUE(refusal(four_nodes(), place).starts_with("2: run.dir is "));
  place = on_fsx();
  place.work_dir = "/fsx/{task}";
  EXPECT_TRUE(refusal(sweep(), place).starts_with("2: the current folder"));
}

TEST(JobScript, WantsAnImageForWhatIsSaidOfContainers) {
  Options options = four_nodes();
  options.container_mounts = "/data:/data";
  EXPECT_EQ(refusal(options), "2: --container-runtime and --container-mounts need --container-image IMAGE");
}

TEST(JobScript, NamesTheVariablesThatWouldWinOverIt) {
  const std::vector<std::string> names = overriding_variables(
      "#!/bin/bash\n#SBATCH --time=1\n#SBATCH --ntasks-per-node=2\n#SBATCH --array=1\n#SBATCH "
      "--requeue\n#SBATCH "
      "--exclusive\n#SBATCH --mem=0\nsrun --qos=x\n");
  EXPECT_EQ(names, (std::vector<std::string>{"SBATCH_WAIT", "SBATCH_TIMELIMIT", "SBATCH_NTASKS_PER_NODE",
                                             "SBATCH_ARRAY_INX", "SBATCH_NO_REQUEUE", "SBATCH_REQUEUE",
                                             "SBATCH_EXCLUSIVE"}));
}

}  // namespace
}  // namespace echelon::submit
