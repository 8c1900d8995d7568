// echelon-ckpt view; what other programs see through it is h5py_oracle.py's subject.
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/hdf5/h5_view.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

using View = InTempDir;
TEST_F(View, ShowsEveryElementOfEveryTensor) {
  Example example{.ranks = 4, .cut = random_cut(8)};
  std::erase_if(example.tensors, [](const TensorInfo& t) { return element_count(t) > 10'000; });
  const Path folder = save(dir.path() / "c", example);
  ASSERT_EQ(tool({"view", folder, "--output", dir.path() / "view.h5"}).code, 0);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"c", "view.h5"}));
  const H5ViewReader view(dir.path() / "view.h5");
  for (const TensorInfo& tensor : example.tensors) {
    std::vector<std::uint64_t> numbers(element_count(tensor));
    std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
    const std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    EXPECT_EQ(view.elements(tensor.name, tensor.dtype, shape, numbers), content_of(tensor)) << tensor.name;
  }
}

TEST_F(View, IsNotMadeOfADamagedCheckpointOrInsideOne) {
  const Path folder = save(dir.path() / "c");
  expect_one_line(tool({"view", folder, "--output", folder / "view.h5"}), 2, "inside the checkpoint");
  const Path shard = folder / "shard-00000-of-00002.h5";
  const std::size_t hdf5 = slurp(shard).find("\x89HDF");
  flip_bit(shard, hdf5 + 60);
  expect_one_line(tool({"view", folder, "--output", dir.path() / "view.h5"}), 5, "HDF5 metadata is damaged");
  std::filesystem::remove(shard);
  expect_one_line(tool({"view", folder, "--output", dir.path() / "view.h5"}), 5, "is missing");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"c"});
}

}  // namespace
}  // namespace echelon::checkpoint
