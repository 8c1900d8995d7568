#include <filesystem>
#include <functional>

#include "app/devices.h"
#include "app/doctor/commands.h"
#include "app/doctor/report.h"
#include "app/engine/engine.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/process/plugin.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "bootstrap/job.h"
#include "bootstrap/pmix_client.h"
#include "comm/mpi/mpi_worker.h"
#include "data/prepare/parquet_rows.h"

namespace echelon::app::doctor {
namespace {

namespace stdfs = std::filesystem;

/// What loads, in which version and from where, or why it does not. `library` is looked up after `load`.
Finding loaded(const std::string& name, const char* library, const std::function<std::string()>& load,
               Verdict if_not, const char* advice) {
  try {
    const std::string version = load();
    Finding finding = ok(name, "");
    const std::string file = stdfs::weakly_canonical(loaded_file(library)).string();
    finding.text = str(version, " loads from ", file);
    finding.values = {{"version", version}, {"file", file}};
    return finding;
  } catch (const Error& error) {
    Finding finding = fault(name, error.what(), advice);
    finding.verdict = if_not;
    return finding;
  }
}

Finding check_mpirun() {
  const std::string mpirun = find_program("mpirun");
  if (!mpirun.empty()) return ok("mpirun", str("--ranks starts local ranks with ", mpirun));
  return warning("mpirun", "no mpirun in PATH: --ranks starts no local ranks; srun --mpi=pmix needs none",
                 "apt-get install openmpi-bin, or module load openmpi");
}

/// A node without a driver is looked at, too: the login node shows what the others will load.
Finding check_gpu_code() {
  const stdfs::path plugin = plugin_path("libechelon_cuda.so");
  if (!stdfs::exists(plugin))
    return warning("gpu_code", "this build has no GPU code", "use a release folder or build where nvcc is");
  if (loaded_file("libtorch_cpu.so").empty()) return unknown("gpu_code", "not tried without libtorch");
  std::string why;
  if (load_gpu_code(plugin, why) == nullptr) {
    return warning("gpu_code", str("runs compute on CPUs only: ", why),
                   "for GPUs: python3 -m pip install torch==" ECHELON_TORCH_VERSION
                   ", with all that it depends on");
  }
  return ok("gpu_code", str("loads from ", plugin.string(), "; ", find_driver().state));
}

void doctor_install(const CommonArguments& arguments) {
  Report report("install");
  const stdfs::path program = own_program();
  report.add(ok("echelon", str("echelon ", ECHELON_VERSION, " is ", program.string())));
  report.add(loaded(
      "libtorch", "libtorch_cpu.so",
      [] { return std::string(engine_function<VersionFunction>("echelon_engine_versions")()); },
      Verdict::kFault, "nothing trains without it"));
  const auto pmix = [] {
    require_pmix();
    return pmix_version();
  };
  const auto mpi = [] {
    require_mpi();
    return mpi_library_version();
  };
  const auto parquet = [] {
    data::require_parquet();
    return std::string("Arrow");
  };
  const char* alone = "only runs of one rank work without it";
  report.add(loaded("pmix", "libpmix.so", pmix, Verdict::kWarning, alone));
  report.add(loaded("mpi", "libmpi.so", mpi, Verdict::kWarning, alone));
  report.add(check_mpirun());
  report.add(check_gpu_code());
  report.add(loaded("parquet", "libarrow.so", parquet, Verdict::kWarning, "only Parquet sources need it"));
  report.finish(arguments.json);
}

}  // namespace

void add_install(CLI::App& doctor) {
  const auto [command, arguments] = add_command<CommonArguments>(
      doctor, "install", "Say what this installation loads from where, and what is missing", doctor_install);
  add_json(command, arguments.json);
}

}  // namespace echelon::app::doctor
