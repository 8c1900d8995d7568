#include "recipe/load.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "recipe/builtin.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/refusal.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;

std::string write(const stdfs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  return file.string();
}

std::string refusal_of(const stdfs::path& file) {
  return test::refusal(Code::kUsage, [&] { (void)load_recipe(file, {}); });
}

using LoadRecipe = test::InTempDir;
TEST_F(LoadRecipe, SaysThatAFileIsMissingAndWhereRecipesAre) {
  EXPECT_EQ(refusal_of("no/such.yaml"),
            "recipe: cannot open 'no/such.yaml': No such file or directory; `echelon recipes ls` lists the "
            "recipes that "
            "come with Echelon");
}

TEST_F(LoadRecipe, RefusesAFolderAPipeAndADevice) {
  EXPECT_MENTIONS(refusal_of(dir.path()), "is not a regular file");
  const stdfs::path pipe = dir.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_MENTIONS(refusal_of(pipe), "is not a regular file");
  EXPECT_MENTIONS(refusal_of("/dev/zero"), "is not a regular file");
}

TEST_F(LoadRecipe, IncludesTheRecipeOfARunWithoutWhatNamesIt) {
  stdfs::create_directories(dir.path() / "first/part");
  (void)write(dir.path() / "first/recipe.yaml",
              "run: {name: first, dir: runs/first, seed: 7}\noptim: {lr: 0.5}\n"
              "data: {kind: synthetic_tokens}\ntrain: {steps: 9, micro_batch_size: 1, global_batch_size: 1}\n"
              "schedule: {warmup_steps: 0}\n");
  for (const char* folder : {"first", "first/"}) {
    const stdfs::path file =
        write(dir.path() / "second.yaml", std::string("include: ") + folder + "\ntrain: {steps: 20}\n");
    const LoadedRecipe loaded = load_recipe(file, {});
    EXPECT_EQ(loaded.recipe.optim.lr, 0.5);
    EXPECT_EQ(loaded.recipe.run.seed, 7);
    EXPECT_EQ(loaded.recipe.train.steps, 20);
    EXPECT_EQ(loaded.recipe.run.name, Recipe().run.name);
    EXPECT_EQ(loaded.recipe.run.dir, "runs/" + Recipe().run.name);
  }
  // As echelon-ckpt import makes it; without its commit the newest does not count.
  for (const char* step : {"step-000000010.aa", "step-000000020.bb", "step-000000030.cc"}) {
    stdfs::create_directories(dir.path() / "imported" / step);
    const std::string name = std::string("imported/") + step;
    (void)write(dir.path() / name / "recipe.yaml", std::string("model: {layers: ") + step[12] + "}\n");
    if (step[12] != '3') (void)write(dir.path() / name / "COMMIT", "");
  }
  const stdfs::path imported =
      write(dir.path() / "fourth.yaml", "include: imported\ndata: {kind: synthetic_tokens}\n");
  EXPECT_EQ(load_recipe(imported, {}).recipe.model.layers, 2);
  const stdfs::path none = write(dir.path() / "third.yaml", "include: first/part\n");
  EXPECT_MENTIONS(refusal_of(none), "first/part/recipe.yaml': No such file");
}

TEST_F(LoadRecipe, RefusesAFileItMayNotRead) {
  const stdfs::path file = write(dir.path() / "r.yaml", "data: {kind: synthetic_tokens}\n");
  stdfs::permissions(file, stdfs::perms::none);
  stdfs::permissions(dir.path(), stdfs::perms::all);
  // Root may read everything, so it becomes nobody for the attempt.
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string message = refusal_of(file);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_MENTIONS(message, "Permission denied");
}

TEST_F(LoadRecipe, TakesOneMebibyteAndNotAByteMore) {
  std::string text = "data: {kind: synthetic_tokens}\n";
  while (text.size() < 1 << 20) text += "# " + std::string(1022, 'x') + "\n";
  text.resize(1 << 20);
  EXPECT_EQ(refusal_of(write(dir.path() / "fits.yaml", text)), "accepted");
  EXPECT_MENTIONS(refusal_of(write(dir.path() / "large.yaml", text + "x")), "at most 1048576 are accepted");
}

TEST_F(LoadRecipe, ReadsTheBaseRelativeToTheIncludingFile) {
  stdfs::create_directories(dir.path() / "sub");
  write(dir.path() / "base.yaml", "data: {kind: synthetic_tokens}\nrun: {name: based}\n");
  const std::string file = write(dir.path() / "sub" / "r.yaml", "include: ../base.yaml\n");
  const LoadedRecipe loaded = load_recipe(file, {});
  EXPECT_EQ(loaded.recipe.run.name, "based");
  EXPECT_EQ(loaded.origins.at("run.name"), (dir.path() / "base.yaml").string() + ":2:13");
}

TEST_F(LoadRecipe, EndsACycleThroughSymbolicLinks) {
  const std::string file = write(dir.path() / "r.yaml", "include: loop/r.yaml\n");
  stdfs::create_directory_symlink(dir.path(), dir.path() / "loop");
  EXPECT_MENTIONS(refusal_of(file), "include: more than 8 files deep");
}

/// Every recipe of the project's recipes/ folder.
std::vector<stdfs::path> shipped() {
  std::vector<stdfs::path> files;
  for (const auto& entry : stdfs::directory_iterator(stdfs::path(test::source_dir()) / "recipes")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

TEST(ShippedRecipes, AllLoadAndRoundTripAndThoseForCpusTakeOneAndTwoRanks) {
  ASSERT_GE(shipped().size(), 3u);
  const test::TempDir dir;
  for (const stdfs::path& file : shipped()) {
    SCOPED_TRACE(file);
    const LoadedRecipe loaded = load_recipe(file, {});
    for (const int ranks : {1, 2}) {
      if (loaded.recipe.train.device == TrainDevice::kCuda)
        continue;  // written for a cluster; tests/e2e/recipes.py
      EXPECT_NO_THROW(validate_for_size(loaded.recipe, ranks));
    }
    const std::string resolved = to_yaml(loaded.recipe, &loaded.origins);
    const LoadedRecipe again = load_recipe(write(dir.path() / "again.yaml", resolved), {});
    EXPECT_EQ(to_yaml(again.recipe), to_yaml(loaded.recipe));
  }
}

TEST(ShippedRecipes, AreCarriedInTheLibraryByteForByte) {
  EXPECT_EQ(recipe::builtin_recipes().size(), shipped().size());
  for (const recipe::BuiltinRecipe& builtin : recipe::builtin_recipes()) {
    std::ifstream file(stdfs::path(test::source_dir()) / "recipes" / (std::string(builtin.name) + ".yaml"));
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(text, builtin.text) << builtin.name;
    EXPECT_TRUE(text.starts_with("# ")) << builtin.name << ": `recipes ls` shows the first line";
  }
}

}  // namespace
}  // namespace echelon
