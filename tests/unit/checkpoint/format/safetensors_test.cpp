// Headers of .safetensors files and their index.json, as foreign programs or enemies may write them.
// safetensors_oracle.py compares the same rules with the format's own library.
#include <gtest/gtest.h>

#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/safetensors_header.h"
#include "checkpoint/format/weight_index.h"
#include "support/matches.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

std::vector<SafetensorsTensor> parse(const std::string& json, std::uint64_t data_bytes) {
  return parse_safetensors_header(json, kSafetensorsLength + json.size() + data_bytes, "'f'");
}

void expect_refused(const std::string& json, std::uint64_t data_bytes, const std::string& part) {
  const std::string text = error_of([&] { (void)parse(json, data_bytes); });
  EXPECT_MENTIONS(text, part) << json << "\n-> " << text;
  EXPECT_FALSE(test::mentions(text, "\n"));
}

/// A header of one tensor 'a' with these fields.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return str(R"({"a":{"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}}");
}
std::string byte_at(std::uint64_t offset) {
  return str(R"({"dtype":"U8","shape":[1],"data_offsets":[)", offset, ',', offset + 1, "]}");
}

TEST(SafetensorsHeader, GivesTensorsInFileOrder) {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20],"note":[{}]},)"
      R"("a":{"shape":[],"data_offsets":[0,8],"dtype":"I64"},"z":{"dtype":"F32","shape":[0,4],"data_offsets":[8,8]}}  )";
  const auto tensors = parse(json, 20);
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].info.name, "a");
  EXPECT_EQ(tensors[0].info.dtype, DType::kI64);
  EXPECT_TRUE(tensors[0].info.shape.empty());
  EXPECT_EQ(tensors[0].offset, 8 + json.size());
  EXPECT_EQ(tensors[1].info.name, "z");
  EXPECT_EQ(tensors[1].bytes, 0U);
  EXPECT_EQ(tensors[2].info.name, "b");
  EXPECT_EQ(tensors[2].info.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors[2].offset, 16 + json.size());
  EXPECT_EQ(tensors[2].bytes, 12U);
}

TEST(SafetensorsHeader, TakesEveryElementTypeACheckpointHas) {
  for (const DType type :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    const std::string name(safetensors_name(type));
    const auto tensors =
        parse(one("\"" + name + "\"", "[3]", str("[0,", 3 * size_of(type), ']')), 3 * size_of(type));
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].info.dtype, type);
    EXPECT_EQ(tensors[0].other_type, "");
  }
}

TEST(SafetensorsHeader, RefusesALengthThatCannotBe) {
  const auto length = [](std::uint64_t n, std::uint64_t file_bytes) {
    return error_of(
        [&] { (void)safetensors_header_bytes(std::as_bytes(std::span(&n, 1)), file_bytes, "'f'"); });
  };
  EXPECT_EQ(length(2, 10), "");
  EXPECT_MENTIONS(length(3, 10), "has only 10");
  EXPECT_MENTIONS(length(0, 7), "too few");
  EXPECT_MENTIONS(length(100'000'001, std::uint64_t{1} << 40), "allows 100000000");
  EXPECT_MENTIONS(length(~std::uint64_t{0}, std::uint64_t{1} << 40), "allows");
  EXPECT_EQ(length(100'000'000, std::uint64_t{1} << 40), "");
}

TEST(SafetensorsHeader, RefusesWhatIsNoObject) {
  for (const char* json : {"", " {}", "[]", "1", "null", "\xEF\xBB\xBF{}"})
    expect_refused(json, 0, "begin with '{'");
  for (const char* json : {"{", "{}x", "{} {}", "{/**/}", "{\"a\"}", "{\"a\":}", "{,}"})
    expect_refused(json, 0, "not valid JSON");
  expect_refused(std::string("{}\0", 3), 0, "zero byte");
  expect_refused(std::string("{}\0\"a\":1", 9), 0, "zero byte");
  expect_refused(str("{\"a\xFF\":", byte_at(0), '}'), 1, "not valid JSON");
  expect_refused(str(R"({"\ud800":)", byte_at(0), '}'), 1, "not valid JSON");
  EXPECT_TRUE(parse("{}", 0).empty());
}

TEST(SafetensorsHeader, RefusesNamesACheckpointCannotHold) {
  for (const char* name : {"", "..", "a/../b", "/a", "a/", "a b", "\\u0000", "a\\nb", "\u00e9", "a:b"})
    expect_refused(str("{\"", name, "\":", byte_at(0), '}'), 1, "tensor name");
  expect_refused(str("{\"", std::string(300, 'x'), "\":", byte_at(0), '}'), 1, "300 bytes");
}

TEST(SafetensorsHeader, RefusesWhatIsSaidTwice) {
  expect_refused(str(R"({"a":)", byte_at(0), R"(,"a":)", byte_at(0), '}'), 1, "'a' appears twice");
  expect_refused(str(R"({"a":)", byte_at(0), R"(,"b":)", byte_at(1), R"(,"a":)", byte_at(2), '}'), 3,
                 "'a' appears twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "'__metadata__' appears twice");
  expect_refused(R"({"__metadata__":{"x\n":"1","x\n":"2"}})", 0, R"(key 'x\x0a' appears twice)");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                 "'dtype' appears twice");
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNotText) {
  for (const char* value :
       {"[]", "1", "\"x\"", R"({"x":1})", R"({"x":null})", R"({"x":{}})", R"({"x":["y"]})"})
    expect_refused(str("{\"__metadata__\":", value, '}'), 0, "'__metadata__' must hold text");
  EXPECT_TRUE(parse(R"({"__metadata__":null})", 0).empty());
}

TEST(SafetensorsHeader, RefusesIncompleteTensors) {
  for (const char* value : {"null", "1", "\"x\"", "[]", R"(["U8",[1],[0,1]])"})
    expect_refused(str("{\"a\":", value, '}'), 1, "must be an object");
  expect_refused(R"({"a":{}})", 0, "lacks one of");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks one of");
  for (const char* offsets : {"[]", "[0]", "[0,1,1]"})
    expect_refused(one("\"U8\"", "[1]", offsets), 1, "two numbers");
  for (const char* offsets : {"null", "{}", "[0,[1]]", "[0,-1]", "[0,1.0]", "[0,1e0]", "[-0,1]",
                              "[0,18446744073709551616]", "[\"0\",1]"})
    expect_refused(one("\"U8\"", "[1]", offsets), 1, "lists of whole numbers");
}

TEST(SafetensorsHeader, RefusesForeignElementTypes) {
  for (const char* dtype : {"C64", "f32", "F4", "x\\n"})
    expect_refused(one(str('"', dtype, '"'), "[1]", "[0,1]"), 1, "element type");
  expect_refused(one(R"({"U8":null})", "[1]", "[0,1]"), 1, "'dtype' must be text");
}

TEST(SafetensorsHeader, TellsElementTypesThatACheckpointCannotHold) {
  const std::vector<std::pair<const char*, std::uint64_t>> types{
      {"BOOL", 1}, {"I8", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"U64", 8}};
  for (const auto& [dtype, size] : types) {
    const auto tensors = parse(one(str('"', dtype, '"'), "[3]", str("[0,", 3 * size, ']')), 3 * size);
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].other_type, dtype);
    EXPECT_EQ(tensors[0].bytes, 3 * size);
  }
  EXPECT_EQ(parse(one("\"U8\"", "[1]", "[0,1]"), 1)[0].other_type, "");
}

TEST(SafetensorsHeader, RefusesShapesOutOfBounds) {
  for (const char* shape : {"[1,1,1,1,1,1,1,1,1]", "[1099511627777]", "[0,18446744073709551615]"})
    expect_refused(one("\"U8\"", shape, "[0,1]"), 1, "8 dimensions, or one above 2^40");
  for (const char* shape : {"[1099511627776,1099511627776]", "[4294967296,4294967296,0]"})
    expect_refused(one("\"F32\"", shape, "[0,0]"), 0, "out of bounds");
  for (const char* shape : {"[-1]", "[1.0]", "null", "{}", "1", "[true]"})
    expect_refused(one("\"U8\"", shape, "[0,1]"), 1, "lists of whole numbers");
}

TEST(SafetensorsHeader, RefusesRangesThatDoNotTileTheData) {
  const auto two = [](const std::string& a, const std::string& b) {
    return str("{\"a\":", a, ",\"b\":", b, '}');
  };
  expect_refused(two(byte_at(0), byte_at(2)), 3, "hole");
  expect_refused(two(byte_at(1), byte_at(2)), 3, "hole");
  expect_refused(two(byte_at(0), byte_at(0)), 1, "overlap");
  expect_refused(one("\"U8\"", "[1]", "[1,0]"), 1, "end before they begin");
  expect_refused(one("\"U8\"", "[2]", "[0,1]"), 1, "takes 2 bytes");
  expect_refused(one("\"F32\"", "[1099511627776]", "[0,1]"), 1, "takes 4398046511104 bytes");
  expect_refused(one("\"U8\"", "[5]", "[0,5]"), 4, "cut short");
  expect_refused(one("\"U8\"", "[5]", "[0,5]"), 6, "belong to no tensor");
  expect_refused("{}", 1, "belong to no tensor");
}

TEST(SafetensorsHeader, RefusesDeepNesting) {
  const auto nested = [](int depth) {
    return str(R"({"a":{"x":)", std::string(static_cast<std::size_t>(depth), '['),
               std::string(static_cast<std::size_t>(depth), ']'),
               R"(,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
  };
  EXPECT_EQ(parse(nested(30), 1).size(), 1U);
  expect_refused(nested(31), 1, "nested deeper");
  expect_refused(nested(100000), 1, "nested deeper");
}

TEST(SafetensorsHeader, ReadsAFileAndRefusesWhatIsNone) {
  const echelon::test::TempDir dir;
  const Path path = dir.path() / "f.safetensors";
  const auto load = [&] {
    const InputFile file = open_input(path);
    return load_safetensors_header(file.fd, file.bytes, path);
  };
  const std::string json = one("\"U8\"", "[3]", "[0,3]");
  const std::uint64_t length = json.size();
  const std::string file = std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json + "xyz";
  spill(path, file);
  EXPECT_EQ(load().at(0).offset, 8 + json.size());
  for (std::size_t size = 0; size < file.size(); ++size) {
    spill(path, file.substr(0, size));
    EXPECT_NE(error_of(load), "") << size;
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_MENTIONS(error_of(load), "symbolic link");
}

TEST(WeightIndex, GivesTheFileOfEveryTensor) {
  const WeightIndex index = parse_weight_index(
      R"({"metadata":{"total_size":12,"x":1},"weight_map":{"b":"model-00001-of-00002.safetensors","a":"m.safetensors"}})",
      "'i'");
  EXPECT_EQ(index.total_size, 12U);
  const std::string of_float =
      R"({"metadata":{"total_size":13476835328.0},"weight_map":{"a":"m.safetensors"}})";
  EXPECT_EQ(parse_weight_index(of_float, "'i'").total_size, 13476835328U);
  EXPECT_EQ(index.files, (std::map<std::string, std::string>{{"a", "m.safetensors"},
                                                             {"b", "model-00001-of-00002.safetensors"}}));
}

TEST(WeightIndex, RefusesEverythingElse) {
  const auto refused = [](const std::string& json, const std::string& part) {
    const std::string text = error_of([&] { (void)parse_weight_index(json, "'i'"); });
    EXPECT_MENTIONS(text, part) << json << "\n-> " << text;
    EXPECT_FALSE(test::mentions(text, "\n"));
  };
  const auto with_file = [](const std::string& file) {
    return str(R"({"metadata":{"total_size":1},"weight_map":{"a":)", file, "}}");
  };
  for (const char* file :
       {R"("../m.safetensors")", R"("/etc/m.safetensors")", R"("d/m.safetensors")", R"("..")", R"("")",
        R"(".m.safetensors")", R"("m\u0000.safetensors")", R"("m\n.safetensors")", R"("pytorch_model.bin")",
        R"("-m.safetensors")", R"("C:\\m.safetensors")"})
    refused(with_file(file), "plain names");
  for (const char* file : {"1", "null", "[]", "{}"}) refused(with_file(file), "must name a file");
  for (const char* without : {R"({"metadata":{},"weight_map":{"a":"m.safetensors"}})",
                              R"({"metadata":null,"weight_map":{"a":"m.safetensors"}})",
                              R"({"weight_map":{"a":"m.safetensors"}})"}) {
    EXPECT_FALSE(parse_weight_index(without, "index").total_size) << without;
  }
  refused(R"({"metadata":[],"weight_map":{"a":"m.safetensors"}})", "'metadata' must be an object");
  for (const char* size : {"-1", "-1.0", "1.5", "1e30", "\"1\"", "null", "18446744073709551615"})
    refused(str(R"({"metadata":{"total_size":)", size, R"(},"weight_map":{"a":"m.safetensors"}})"),
            "total_size");
  refused(R"({"metadata":{"total_size":1}})", "'weight_map' is missing");
  for (const char* map : {"{}", "[]", "null", "1"})
    refused(str(R"({"metadata":{"total_size":1},"weight_map":)", map, '}'), "'weight_map' must");
  refused(R"({"metadata":{"total_size":1},"weight_map":{"../a":"m.safetensors"}})", "tensor name");
  refused(R"({"metadata":{"total_size":1},"weight_map":{"a":"m.safetensors","a":"n.safetensors"}})", "twice");
  refused(R"({"metadata":{"total_size":1},"weight_map":{"a\n":"m.safetensors","a\n":"n.safetensors"}})",
          R"('a\x0a' appears twice)");
  refused(std::string(R"({"metadata":{"total_size":1},"weight_map":{"a":"m.safetensors"}})") +
              std::string("\0 junk", 6),
          "zero byte");
  refused(std::string(kMaxWeightIndexBytes + 1, ' '), "64 MiB");
  refused("{", "not valid JSON");
}

}  // namespace
}  // namespace echelon::checkpoint
