#include "checkpoint/read/base_note.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/format/json.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

const BaseNote kNote{.folder = "/bases/llama",
                     .save_id = "0a1b2c3d",
                     .tensors = {{{"model/a", DType::kF32, {2, 3}}, 1}, {{"model/b", DType::kBF16, {}}, 2}}};

std::string refusal(const std::string& text) {
  return echelon::test::refusal(Code::kCheckpoint, [&] { (void)parse_base_note(text, "base.json"); });
}

TEST(BaseNote, ComesBackFromItsText) {
  const BaseNote read = parse_base_note(kNote.text(), "base.json");
  EXPECT_EQ(read.text(), kNote.text());
  ASSERT_NE(read.find("model/b"), nullptr);
  EXPECT_EQ(read.find("model/b")->fingerprint, 2U);
  EXPECT_EQ(read.find("model/b")->info.dtype, DType::kBF16);
  for (const char* other : {"", "model/", "model/aa", "model/c"}) EXPECT_EQ(read.find(other), nullptr);
  BaseNote folder = kNote;
  folder.save_id.clear();
  EXPECT_EQ(parse_base_note(folder.text(), "base.json").save_id, "");
}

TEST(BaseNote, RefusesWhatNoRunWrites) {
  const auto changed = [](const char* key, const Json& value) {
    Json root = Json::parse(kNote.text());
    root[key] = value;
    return refusal(root.dump());
  };
  EXPECT_NE(refusal("[]"), "accepted");
  EXPECT_MENTIONS(changed("folder", "bases/llama"), "'folder' must be an absolute path");
  EXPECT_MENTIONS(changed("folder", 3), "folder");
  EXPECT_MENTIONS(changed("save_id", "../.."), "eight lower-case hex digits");
  EXPECT_MENTIONS(changed("tensors", 3), "must be a list");
  const auto tensor = [&](const char* key, const Json& value) {
    Json one = Json::parse(kNote.text())["tensors"][0];
    one[key] = value;
    return changed("tensors", Json::array({one}));
  };
  EXPECT_EQ(tensor("name", "model/c"), "accepted");
  EXPECT_MENTIONS(tensor("dtype", "int64"), "must be fp32 or bf16");
  EXPECT_MENTIONS(tensor("name", "../a"), "a tensor name");
  EXPECT_MENTIONS(tensor("shape", {-1}), "dimension");
  EXPECT_MENTIONS(tensor("crc64nvme", "12"), "crc64nvme");
}

TEST(BaseNote, ListsNothingThatTheCheckpointHolds) {
  const TempDir dir;
  Example example{.tensors = {{"model/c", DType::kF32, {2}}}};
  EXPECT_FALSE(base_note_of(Reader(save(dir.path() / "whole", example))));
  example.attachments[std::string(kBaseFile)] = kNote.text();
  EXPECT_EQ(base_note_of(Reader(save(dir.path() / "part", example))).value().folder, kNote.folder);
  example.tensors.push_back({"model/a", DType::kF32, {2, 3}});
  const Reader both(save(dir.path() / "both", example));
  EXPECT_THROW((void)base_note_of(both), Error);
}

}  // namespace
}  // namespace echelon::checkpoint
