#pragma once
#include <ATen/Parallel.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/str.h"
#include "comm/mpi/mpi_world.h"

namespace echelon {

/// What such a program's main() does: runs `run_case` on each of the "cases" of the JSON file that its
/// argument names, alone or as one rank of an mpirun step. "log": the messages of rank R go into that file, R
/// behind it.
template <class RunCase>
int run_cases(int argc, char** argv, const RunCase& run_case) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " REQUESTS.json\n";
    return 2;
  }
  const auto job = bootstrap(inside_launched_step() ? Launch::kPmix : Launch::kSingle, 60.0);
  const int rank = job->info().rank;
  try {
    at::set_num_threads(1);  // ranks share the test machine's cores
    const auto root = nlohmann::json::parse(std::ifstream(argv[1]));
    if (root.contains("log")) log::init(str("rank ", rank), false, str(root["log"].get<std::string>(), rank));
    {
      const auto comm = make_mpi_communicator(*job, 60.0);
      for (const auto& request : root.at("cases")) run_case(request, *comm);
    }
    finish_mpi();
    job->finish();
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "rank " << rank << ": " << e.what() << '\n';
    job->abort(1, e.what());
    return 1;
  }
}

}  // namespace echelon
