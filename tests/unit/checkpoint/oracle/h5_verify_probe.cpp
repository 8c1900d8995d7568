// h5_verify_probe FILE JSON: compares an HDF5 file that somebody else made with the index described by JSON,
// and prints the problems. JSON: {"index_bytes", "rank", "ranks", "entries": [{"name", "dtype", "shape",
// "begin", "end", "offset"}]}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/hdf5/h5_verify.h"

namespace {

using namespace echelon::checkpoint;  // NOLINT

ShardIndex index_from(const nlohmann::json& json) {
  ShardIndex index{.rank = json["rank"], .ranks = json["ranks"], .index_bytes = json["index_bytes"]};
  for (const auto& entry : json["entries"]) {
    ShardEntry one{
        .tensor = {entry["name"], dtype_named(entry["dtype"].get<std::string>()).value(), entry["shape"]},
        .begin = entry["begin"],
        .end = entry["end"],
        .file_offset = entry["offset"]};
    one.bytes = (one.end - one.begin) * echelon::size_of(one.tensor.dtype);
    index.entries.push_back(std::move(one));
  }
  return index;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const auto index = index_from(nlohmann::json::parse(argv[2]));
    for (const H5Problem& problem : verify_h5(open_input(argv[1]), index)) {
      std::cout << problem.tensor << '\t' << problem.problem << '\n';
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
