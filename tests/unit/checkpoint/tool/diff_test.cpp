// echelon-ckpt diff.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/checksum/crc64.h"
#include "checkpoint/read/base_note.h"
#include "checkpoints_tool/element_difference.h"
#include "support/places.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;

/// A checkpoint with these tensors on one rank.
Path save_bytes(const Path& root, const std::vector<std::pair<TensorInfo, std::vector<std::byte>>>& content) {
  const Path folder = root / step_folder_name(7, "0a0b0c0d");
  std::filesystem::create_directories(folder);
  std::vector<Slice> slices;
  std::vector<TensorInfo> tensors;
  for (const auto& [tensor, bytes] : content) {
    slices.push_back({tensor, 0, element_count(tensor), bytes});
    tensors.push_back(tensor);
  }
  write_shard(folder, 0, 1, "0a0b0c0d", slices);
  commit(folder, {.step = 7, .save_id = "0a0b0c0d", .ranks = 1, .tensors = tensors, .trainer_state = "{}"});
  return folder;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

using Diff = InTempDir;

TEST_F(Diff, FindsTheSameStateEqualHoweverItWasCut) {
  const Path a = save(dir.path() / "a", {.ranks = 1});
  const Path b = save(dir.path() / "b", {.step = 9, .ranks = 4, .cut = random_cut(2)});
  const Outcome text = succeeded(tool({"diff", a, b}));
  EXPECT_EQ(text.out, "equal: 10 tensors\n");
  const json report = json::parse(tool({"diff", "--json", "--data", a, b}).out);
  EXPECT_EQ(report["equal"], true);
  EXPECT_TRUE(report["tensors"].empty());
}

TEST_F(Diff, NamesEveryKindOfDifference) {
  const std::vector<float> values{1, 2, 3, 4};
  std::vector<float> other = values;
  other[2] = 3.5F;
  const Path a = save_bytes(dir.path() / "a", {{{"gone", DType::kF32, {4}}, bytes_of(values)},
                                               {{"shape", DType::kF32, {4}}, bytes_of(values)},
                                               {{"type", DType::kF32, {4}}, bytes_of(values)},
                                               {{"same", DType::kF32, {4}}, bytes_of(values)},
                                               {{"value", DType::kF32, {4}}, bytes_of(values)}});
  const Path b = save_bytes(dir.path() / "b", {{{"new", DType::kF32, {4}}, bytes_of(values)},
                                               {{"shape", DType::kF32, {2, 2}}, bytes_of(values)},
                                               {{"type", DType::kI32, {4}}, bytes_of(values)},
                                               {{"same", DType::kF32, {4}}, bytes_of(values)},
                                               {{"value", DType::kF32, {4}}, bytes_of(other)}});
  const Outcome outcome = tool({"diff", "--json", "--data", a, b});
  EXPECT_EQ(outcome.code, 1);
  std::map<std::string, json> found;
  const json report = json::parse(outcome.out);
  for (const json& tensor : report["tensors"]) found[tensor["name"]] = tensor;
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found["gone"]["difference"], "only_a");
  EXPECT_EQ(found["new"]["difference"], "only_b");
  EXPECT_EQ(found["shape"]["difference"], "shape");
  EXPECT_EQ(found["type"]["difference"], "dtype");
  EXPECT_EQ(found["value"]["difference"], "content");
  EXPECT_EQ(found["value"]["elements_differing"], 1);
  EXPECT_EQ(found["value"]["max_abs"], 0.5);
  EXPECT_EQ(found["value"]["max_ulp"], 1 << 21);
  const std::string text = tool({"diff", "--data", a, b}).out;
  for (const char* part : {"gone: only in A", "new: only in B", "shape: shape [4] in A, [2, 2] in B",
                           "type: type fp32 in A, int32 in B",
                           "value: 1 of 4 elements differ, max abs 0.5, max ulp 2097152", "5 differ"})
    EXPECT_MENTIONS(text, part) << part << '\n' << text;
}

TEST_F(Diff, ReadsNoTensorUnlessAsked) {
  const std::vector<float> ones(50'000, 1.0F);
  const std::vector<float> twos(50'000, 2.0F);
  const TensorInfo tensor{"model/w", DType::kF32, {50'000}};
  const Path a = save_bytes(dir.path() / "a", {{tensor, bytes_of(ones)}});
  const Path b = save_bytes(dir.path() / "b", {{tensor, bytes_of(twos)}});
  flip_bit(a / "shard-00000-of-00001.h5", 100'000);
  EXPECT_EQ(tool({"diff", a, b}).code, 1);
  expect_one_line(tool({"diff", "--data", a, b}), 5, "is damaged");
  EXPECT_EQ(tool({"diff", a, dir.path() / "absent"}).code, 5);
}

TEST_F(Diff, ReadsATensorOfFormat10WhoseCounterpartLiesInABase) {
  const Path old = Path(echelon::test::source_dir()) / "tests/golden/checkpoint_1.0";
  const Reader reader(old);
  const TensorInfo weight = *reader.find("model/w");
  Example example{.ranks = 1, .tensors = {{"optim/w/exp_avg", DType::kF32, {1}}}};
  const auto lines_about_w = [&](const std::string& name, std::uint64_t fingerprint) {
    example.attachments[std::string(kBaseFile)] =
        BaseNote{.folder = "/gone", .tensors = {{weight, fingerprint}}}.text();
    const Outcome outcome = tool({"diff", old, save(dir.path() / name, example)});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    return test::mentions(outcome.out, "model/w: content differs");
  };
  const std::uint64_t same = crc64(read_all(reader, weight));
  EXPECT_FALSE(lines_about_w("same", same));
  EXPECT_TRUE(lines_about_w("other", same + 1));
}

template <class T>
tool::ElementDifference compared(DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  tool::ElementDifference difference;
  tool::compare_elements(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), dtype, difference);
  return difference;
}

TEST(ElementDifference, CountsRepresentableNumbersBetweenFloats) {
  const float next = std::nextafter(1.0F, 2.0F);
  EXPECT_EQ(compared<float>(DType::kF32, {1, 5}, {next, 5}).max_ulp, 1U);
  EXPECT_EQ(compared<float>(DType::kF32, {1, 5}, {next, 5}).elements, 1U);
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(compared<float>(DType::kF32, {tiny}, {-tiny}).max_ulp, 2U);  // through zero
  EXPECT_EQ(compared<float>(DType::kF32, {0.0F}, {-0.0F}).max_ulp, 0U);
  EXPECT_EQ(compared<float>(DType::kF32, {0.0F}, {-0.0F}).elements, 1U);
  EXPECT_EQ(compared<double>(DType::kF64, {1.0}, {std::nextafter(1.0, 2.0)}).max_ulp, 1U);
  EXPECT_EQ(compared<std::uint16_t>(DType::kBF16, {0x3F80}, {0x3F82}).max_ulp, 2U);
  EXPECT_EQ(compared<std::uint16_t>(DType::kBF16, {0x3F80}, {0x4000}).max_abs, 1.0);  // 1 and 2
  EXPECT_EQ(compared<std::uint16_t>(DType::kF16, {0x3C00}, {0x4000}).max_abs, 1.0);
}

TEST(ElementDifference, KeepsNanAndInfinityApart) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto found = compared<float>(DType::kF32, {NAN, inf, inf, 1.0F}, {1.0F, -inf, inf, 3.0F});
  EXPECT_EQ(found.elements, 3U);
  EXPECT_EQ(found.incomparable, 2U);
  EXPECT_EQ(found.max_abs, 2.0);
}

TEST(ElementDifference, MeasuresIntegersOfFullRange) {
  const auto low = std::numeric_limits<std::int64_t>::min();
  const auto high = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(compared<std::int64_t>(DType::kI64, {low}, {high}).max_ulp, UINT64_MAX);
  EXPECT_EQ(compared<std::int32_t>(DType::kI32, {-3}, {4}).max_abs, 7.0);
  EXPECT_EQ(compared<std::uint8_t>(DType::kU8, {0}, {255}).max_ulp, 255U);
}

}  // namespace
}  // namespace echelon::checkpoint
