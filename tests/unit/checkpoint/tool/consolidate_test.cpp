// Long conversions: any number of threads, bounded memory, taken up after a kill, never two at a time.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <optional>

#include "base/files/disk.h"
#include "base/str.h"
#include "checkpoint/folder/bulk_memory.h"
#include "checkpoints_tool/convert/assembly.h"
#include "checkpoints_tool/convert/byte_size.h"
#include "checkpoints_tool/convert/direct_file.h"
#include "checkpoints_tool/convert/journal.h"
#include "support/counting_disk.h"
#include "support/faulty_disk.h"
#include "support/no_direct_disk.h"
#include "support/places.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

/// 20 windows: long enough to be interrupted.
Example large_example() {
  return {.ranks = 2, .tensors = {{"model/w", DType::kF32, {40, 1 << 20}}}};
}

std::vector<std::string> hdf5_arguments(const Path& checkpoint, const Path& output) {
  return {"consolidate", checkpoint, "--to", "hdf5", "--output", output, "--jobs", "1"};
}

std::vector<Path> partial_folders(const Path& folder) {
  std::vector<Path> found;
  for (const std::string& name : names_in(folder)) {
    if (mentions(name, ".partial-")) found.push_back(folder / name);
  }
  return found;
}

/// A run that got some windows done and then received `signal`.
struct Stopped {
  pid_t child = -1;
  Path partial;
  std::optional<Outcome> outcome;  ///< unless it was only paused
};
Stopped stop_half_way(const TempDir& scratch, const Path& checkpoint, const Path& output, int signal) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    const pid_t child = start(scratch, hdf5_arguments(checkpoint, output));
    for (int i = 0; i < 20'000; ++i) {
      const auto partial = partial_folders(output.parent_path());
      std::error_code none_yet;
      if (!partial.empty() && std::filesystem::file_size(partial.front() / "journal", none_yet) > 200 &&
          !none_yet) {
        ::kill(child, signal);
        break;
      }
      if (std::filesystem::exists(output)) break;
      ::usleep(200);
    }
    std::optional<Outcome> outcome;
    if (signal != SIGSTOP || std::filesystem::exists(output)) outcome = finish(scratch, child);
    const auto partial = partial_folders(output.parent_path());
    const bool was_faster = outcome && outcome->code == 0;
    if (!partial.empty() && !was_faster) return {child, partial.front(), outcome};
    if (!outcome) (void)finish(scratch, child);
    std::filesystem::remove_all(output);
  }
  ADD_FAILURE() << "no run could be stopped half-way";
  return {};
}

/// A run into "out" beside its checkpoint "c" that got half-way.
struct HalfDone {
  explicit HalfDone(int signal) : run(stop_half_way(scratch, folder, out, signal)) {}
  [[nodiscard]] Outcome ended() const { return run.outcome ? *run.outcome : finish(scratch, run.child); }
  [[nodiscard]] Outcome again() const { return tool(hdf5_arguments(folder, out)); }

  TempDir dir;
  TempDir scratch;
  Path folder = save(dir.path() / "c", large_example());
  Path out = dir.path() / "out";
  Stopped run;
};

TEST(Consolidate, TakesUpWhatAKilledRunLeft) {
  const HalfDone half(SIGKILL);
  EXPECT_EQ(half.ended().code, 128 + SIGKILL);
  const Path whole = half.dir.path() / "whole";
  EXPECT_EQ(tool(hdf5_arguments(half.folder, whole)).code, 0);
  // A run from the beginning would fail at the damage; what is done already is not read again.
  flip_bit(half.folder / "shard-00000-of-00002.h5", (1U << 20) + 9);
  expect_one_line(tool(hdf5_arguments(half.folder, half.dir.path() / "other")), 5, "is damaged");
  succeeded(half.again());
  EXPECT_EQ(slurp(half.out), slurp(whole));
  EXPECT_EQ(names_in(half.dir.path()), (std::vector<std::string>{"c", "out", "whole"}));
}

TEST(Reshard, CollectsWhatAKilledRunLeft) {
  const TempDir dir;
  const TempDir scratch;
  const Path folder = save(dir.path() / "c", large_example());
  const auto reshard = [&](const char* ranks) {
    return std::vector<std::string>{"reshard", folder, "--world", ranks, "--output", dir.path() / "out"};
  };
  const Path out = dir.path() / "out";
  const auto leaves_something = [&] {
    const auto partial = partial_folders(dir.path());
    return !partial.empty() && std::filesystem::exists(partial.front() / "output");
  };
  for (int attempt = 0; !leaves_something() || std::filesystem::exists(out); ++attempt) {
    ASSERT_LT(attempt, 50) << "no run could be killed half-way";
    std::filesystem::remove_all(out);  // the run before was faster
    const pid_t child = start(scratch, reshard("3"));
    for (int i = 0; i < 20'000 && !leaves_something() && !std::filesystem::exists(out); ++i) ::usleep(200);
    ::kill(child, SIGKILL);
    (void)finish(scratch, child);
  }
  succeeded(tool(reshard("4")));
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"c", "out"}));
}

TEST(Consolidate, MakesAnewWhatDiffersFromTheJournal) {
  const HalfDone half(SIGKILL);
  (void)half.ended();
  const Path whole = half.dir.path() / "whole";
  EXPECT_EQ(tool(hdf5_arguments(half.folder, whole)).code, 0);
  flip_bit(half.run.partial / "output", 1U << 20);
  const std::string journal = slurp(half.run.partial / "journal");
  spill(half.run.partial / "journal", journal.substr(0, journal.size() - 5));  // torn
  EXPECT_EQ(half.again().code, 0);
  EXPECT_EQ(slurp(half.out), slurp(whole));
}

TEST(Consolidate, KeepsItsWorkWhenInterrupted) {
  const HalfDone half(SIGTERM);
  expect_one_line(half.ended(), 128 + SIGTERM, "the same command continues from here");
  EXPECT_EQ(half.again().code, 0);
  EXPECT_EQ(names_in(half.dir.path()), (std::vector<std::string>{"c", "out"}));
}

TEST(Consolidate, LeavesTheUnfinishedOutputOfOtherOptionsAlone) {
  const HalfDone half(SIGKILL);
  (void)half.ended();
  std::vector<std::string> others = hdf5_arguments(half.folder, half.out);
  others.insert(others.end(), {"--dtype", "bf16"});
  expect_one_line(tool(others), 0, half.run.partial.filename());
  EXPECT_TRUE(std::filesystem::exists(half.run.partial / "journal"));
  EXPECT_EQ(std::filesystem::file_size(half.out), (80U << 20) + 4096);
}

TEST(Consolidate, TellsOfTheProcessThatMakesTheSameOutputWithOtherOptions) {
  const HalfDone half(SIGSTOP);
  std::vector<std::string> others = hdf5_arguments(half.folder, half.out);
  others.insert(others.end(), {"--dtype", "bf16"});
  const Outcome outcome = tool(others);
  expect_one_line(outcome, 0, str("process ", half.run.child));
  EXPECT_FALSE(test::mentions(outcome.err, "remove it"));
  ::kill(half.run.child, SIGCONT);
  expect_one_line(half.ended(), 2, "cannot rename");
}

TEST(Consolidate, RefusesToWorkBesideAnotherProcess) {
  const HalfDone half(SIGSTOP);
  expect_one_line(half.again(), 2, str("process ", half.run.child));
  ::kill(half.run.child, SIGKILL);
  (void)half.ended();
  EXPECT_EQ(half.again().code, 0) << "its owner is gone";
}

TEST(Consolidate, GivesTheSameBytesWithAnyNumberOfThreads) {
  const TempDir dir;
  Example example{.ranks = 3, .cut = random_cut(5)};
  example.tensors.push_back({"model/long", DType::kBF16, {9'000'001}});
  const Path folder = save(dir.path() / "c", example);
  for (const char* jobs : {"1", "2", "5"}) {
    succeeded(tool({"consolidate", folder, "--to", "safetensors", "--output", dir.path() / jobs,
                    "--optimizer", "--dtype", "fp32", "--jobs", jobs}));
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(slurp(dir.path() / jobs / file), slurp(dir.path() / "1" / file)) << jobs;
  }
}

TEST(Consolidate, KeepsWithinItsMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer needs memory of its own";
#endif
  const TempDir dir;
  const Path folder = save(dir.path() / "c", large_example());
  const auto run = [&](const char* memory, const char* output) {
    return tool({"consolidate", folder, "--to", "hdf5", "--dtype", "bf16", "--output", dir.path() / output,
                 "--mem", memory, "--jobs", "64"});
  };
  const Outcome small = succeeded(run("64M", "a"));
  EXPECT_LT(small.max_rss_bytes, 64U << 20);
  EXPECT_LT(run("256M", "b").max_rss_bytes, 256U << 20);
  EXPECT_EQ(slurp(dir.path() / "a"), slurp(dir.path() / "b"));
  expect_one_line(run("8M", "c1"), 2, "at least 48.0 MiB");
  expect_one_line(run("lots", "c1"), 2, "'lots' is not a size");
}

TEST(Consolidate, SplitsSafetensorsAndWritesTheirIndex) {
  const TempDir dir;
  const Path folder = save(dir.path() / "c");
  succeeded(tool({"consolidate", folder, "--to", "safetensors", "--max-shard-size", "20KB", "--output",
                  dir.path() / "o"}));
  EXPECT_EQ(names_in(dir.path() / "o"),
            (std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors", "model.safetensors.index.json"}));
}

TEST(Consolidate, SaysWhenTheOutputDoesNotFitOnTheDisk) {
  const TempDir dir;
  const Path folder = save(dir.path() / "c", large_example());
  const TempDir scratch;
  const std::string command = str(
      "ulimit -f 1000; exec '", echelon::test::program("echelon-ckpt"), "' consolidate '", folder.string(),
      "' --to hdf5 --output '", (dir.path() / "o").string(), "' 2>'", (scratch.path() / "err").string(), "'");
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 5);
  EXPECT_MENTIONS(slurp(scratch.path() / "err"), "ulimit -f");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"c"});
}

/// The transposed values of a matrix, element by element.
std::vector<std::byte> transposed(const std::vector<std::byte>& matrix, std::size_t rows, std::size_t columns,
                                  std::size_t size) {
  std::vector<std::byte> out(matrix.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c)
      std::copy_n(matrix.begin() + static_cast<std::ptrdiff_t>((r * columns + c) * size), size,
                  out.begin() + static_cast<std::ptrdiff_t>((c * rows + r) * size));
  }
  return out;
}

/// A file with nothing but the transposes of what `reader` holds.
tool::OutputPlan transposes(const Reader& reader) {
  std::vector<tool::OutputTensor> tensors;
  for (const TensorInfo& tensor : reader.tensors()) {
    tensors.push_back(tool::whole_tensor(tensor));
    tensors.back().transposed = true;
  }
  return {{tool::plan_hdf5(std::move(tensors), 1)}};
}

void expect_transposes(const tool::OutputPlan& plan, const Path& output) {
  const std::string bytes = slurp(output);
  EXPECT_EQ(bytes.size(), plan.files[0].bytes);
  for (const tool::OutputTensor& tensor : plan.files[0].tensors) {
    const auto& shape = tensor.source.shape;
    const auto expected = transposed(content_of(tensor.source), static_cast<std::size_t>(shape[0]),
                                     static_cast<std::size_t>(shape[1]), size_of(tensor.dtype));
    EXPECT_EQ(std::memcmp(bytes.data() + tensor.offset, expected.data(), expected.size()), 0) << tensor.name;
    EXPECT_EQ(tensor.shape(), (std::vector<std::int64_t>{shape[1], shape[0]}));
  }
}

TEST(Assembly, TransposesMatricesOfAnySize) {
  const TempDir dir;
  const Example example{.ranks = 3,
                        .cut = random_cut(3),
                        .tensors = {{"model/a", DType::kF32, {2500, 1733}},  // three windows
                                    {"model/b", DType::kBF16, {1, 5}},
                                    {"model/c", DType::kF64, {7, 1'300'000}},  // rows longer than the scratch
                                    {"model/d", DType::kU8, {61, 3}}}};
  const Reader reader(save(dir.path() / "c", example));
  const tool::OutputPlan plan = transposes(reader);
  tool::Journal journal(dir.path() / "journal", "test");
  tool::Progress progress("testing");
  tool::assemble(reader, plan, dir.path() / "out", journal, {3}, progress);
  expect_transposes(plan, dir.path() / "out");
}

TEST(Assembly, ReadsAMatrixThatIsTransposedOnce) {
  const TempDir dir;
  const std::vector<TensorInfo> tensors{
      {"model/rows", DType::kF32, {2500, 2733}},       // four windows, whole rows at a time
      {"model/stretches", DType::kF32, {130, 60'000}}  // rows too long for many of them at a time
  };
  for (const TensorInfo& tensor : tensors) {
    const Example example{.ranks = 1, .cut = random_cut(1), .tensors = {tensor}};
    const Path folder = dir.path() / tensor.name.substr(6);
    const Reader reader(save(folder, example));
    const tool::OutputPlan plan = transposes(reader);
    const auto times_read = [&](std::uint64_t tile_bytes) {
      const Path output = folder / str("out-", tile_bytes);
      tool::Journal journal(output.string() + "-journal", "test");
      tool::Progress progress("testing");
      echelon::test::CountingDisk disk;
      {
        const fs::DiskInUse in_use(disk);
        tool::assemble(reader, plan, output, journal, {2, tile_bytes}, progress);
      }
      expect_transposes(plan, output);
      return static_cast<double>(disk.read()) / static_cast<double>(plan.files[0].tensors[0].bytes);
    };
    const double in_tiles = times_read(tool::kWindowBytes);
    EXPECT_GE(in_tiles, 1) << tensor.name;
    EXPECT_LE(in_tiles, tensor.shape[0] > 1000 ? 1.1 : 2.0) << tensor.name;
    EXPECT_LE(times_read(std::uint64_t{40} << 20), 1.1) << tensor.name << " whole";
  }
}

TEST(Assembly, TakesUpTransposedMatricesWhereTheyAreWhole) {
  const TempDir dir;
  const Example example{
      .ranks = 2,
      .cut = random_cut(2),
      .tensors = {{"model/a", DType::kF32, {2500, 1733}}, {"model/b", DType::kF32, {90, 40'000}}}};
  const Reader reader(save(dir.path() / "c", example));
  const tool::OutputPlan plan = transposes(reader);
  const Path output = dir.path() / "out";
  tool::Progress progress("testing");
  const auto assemble = [&] {
    tool::Journal journal(dir.path() / "journal", "test");
    tool::assemble(reader, plan, output, journal, {2}, progress);
    return std::filesystem::file_size(dir.path() / "journal");
  };
  const auto records = assemble();
  EXPECT_EQ(assemble(), records) << "nothing was made again";
  const tool::OutputTensor& a = plan.files[0].tensors[0];
  for (const std::uint64_t byte : {a.offset, a.offset + a.bytes / 2, a.offset + a.bytes - 1}) {
    flip_bit(output, byte, 3);
    EXPECT_GT(assemble(), records);
    expect_transposes(plan, output);
  }
  flip_bit(output, 0, 0);  // makes the window anew that holds the beginning of the first matrix, too
  (void)assemble();
  expect_transposes(plan, output);
}

TEST(ByteSize, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(tool::parse_byte_size("5GB", "--x"), 5'000'000'000U);
  EXPECT_EQ(tool::parse_byte_size("256M", "--x"), 256U << 20);
  EXPECT_EQ(tool::parse_byte_size("3kib", "--x"), 3072U);
  EXPECT_EQ(tool::parse_byte_size("17", "--x"), 17U);
  EXPECT_EQ(tool::parse_byte_size("2TB", "--x"), 2'000'000'000'000U);
  EXPECT_EQ(tool::parse_byte_size("1.5GB", "--x"), 1'500'000'000U);
  for (const char* wrong : {"", "GB", "0", "-1", "5 GB", "5XB", "5GiBs", "99999999999999TB"})
    EXPECT_MENTIONS(error_of([&] { (void)tool::parse_byte_size(wrong, "--x"); }), "--x") << wrong;
}

TEST(DirectFile, WritesThroughTheCacheWhereItMust) {
  for (const bool at_open : {true, false}) {
    const TempDir dir;
    InUse<NoDirectDisk> disk(at_open);
    tool::DirectFile file(dir.path() / "f", 5000);
    const checkpoint::BulkMemory buffer(8192);
    std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{'x'});
    file.write(0, buffer.bytes().first(5000));
    file.finish();
    EXPECT_EQ(slurp(dir.path() / "f"), std::string(5000, 'x'));
  }
}

TEST(DirectFile, ShowsAFullDiskBeforeTheFirstByte) {
  const TempDir dir;
  const InUse<FaultyDisk> disk(fs::disk(),
                               {{.call = DiskCall::kReserve, .times = Fault::kForever, .error = ENOSPC}});
  EXPECT_MENTIONS(error_of([&] { tool::DirectFile(dir.path() / "f", 5000); }), "No space left");
}

TEST(Journal, ForgetsWhatBelongsToAnotherConversion) {
  const TempDir dir;
  const Path path = dir.path() / "journal";
  const auto known = [&](const std::string& identity) {
    return tool::Journal(path, identity).earlier().size();
  };
  {
    tool::Journal journal(path, "a");
    journal.append({.window = 3, .crc = 7, .parts = {1, 2}});
    journal.append({.window = 1, .crc = 8, .parts = {}});
  }
  EXPECT_EQ(known("a"), 2U);
  EXPECT_EQ(tool::Journal(path, "a").earlier().at(3).parts, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(known("b"), 0U);
  EXPECT_EQ(known("a"), 0U);
}

TEST(Journal, EndsBeforeTheFirstRecordThatIsNotWhole) {
  const TempDir dir;
  const Path path = dir.path() / "journal";
  {
    tool::Journal journal(path, "a");
    for (std::uint64_t i = 0; i < 4; ++i) journal.append({.window = i, .crc = 7, .parts = {1, 2, 3}});
  }
  const std::string whole = slurp(path);
  const std::size_t record = whole.size() - 1 - whole.rfind('\n', whole.size() - 2);
  for (std::size_t byte = whole.size() - 2 * record; byte < whole.size() - record; ++byte) {
    spill(path, whole);
    flip_bit(path, byte, 3);
    EXPECT_EQ(tool::Journal(path, "a").earlier().size(), 2U) << byte;
  }
  for (std::size_t size = whole.size() - record; size < whole.size(); ++size) {
    spill(path, whole.substr(0, size));
    EXPECT_EQ(tool::Journal(path, "a").earlier().size(), 3U) << size;
  }
}

}  // namespace
}  // namespace echelon::checkpoint
