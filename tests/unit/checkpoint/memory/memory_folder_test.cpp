// The folder in memory vanishes, or somebody else puts something in its place, at any moment.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "support/long_form.h"
#include "support/matches.h"
#include "support/swapping_disk.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/memory/memory_nodes.h"

namespace echelon::checkpoint::test {
namespace {

using Tree = std::map<std::string, std::string>;

enum class Swap {
  kLink,   ///< another folder of this user, by a link in place of the user's folder
  kInner,  ///< the same, by a link in place of the run's folder
  kGone,   ///< nothing
};

/// Every entry below `root` with its content.
Tree tree_of(const Path& root) {
  Tree tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    tree[entry.path().string()] = entry.is_regular_file() ? slurp(entry.path()) : "";
  return tree;
}

/// Nodes with a whole save, and a folder of the owner that looks like that of a run in memory.
struct Scene {
  Scene(const Path& where, const Hosts& hosts) : root(where) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    nodes = std::make_unique<MemoryNodes>(root, hosts);
    EXPECT_EQ(nodes->save(10), Hosts{});
    std::filesystem::create_directories(victim / run.filename());
    for (const std::int64_t step : {5, 10, 20}) {
      const std::string name = step_folder_name(step, TinyRun::save_id(step));
      std::filesystem::copy(nodes->step(0, 10), victim / run.filename() / name,
                            std::filesystem::copy_options::recursive);
    }
    spill(victim / run.filename() / "thesis", "five years of work");
    untouched = tree_of(victim);
  }

  void swap(Swap how) const {
    const Path user = run.parent_path();
    if (how == Swap::kGone) {
      std::filesystem::remove_all(user);
      return;
    }
    std::filesystem::rename(user, root / "a" / "away");
    if (how == Swap::kLink) return std::filesystem::create_directory_symlink(victim, user);
    std::filesystem::create_directory(user);
    ::chmod(user.c_str(), 0700);
    std::filesystem::create_directory_symlink(victim / run.filename(), run);
  }

  Path root;
  Path victim = root / "victim";
  Path run = MemoryNodes::folder_of(root, "a");
  std::unique_ptr<MemoryNodes> nodes;
  Tree untouched;
};

/// Does `work` again and again, each time with the swap before another of its calls; `after` looks at the
/// end.
/// On one node, and a smaller share on two, where the other one waits for a second for what does not come.
void sweep_on(const Hosts& hosts, int share, Swap how, const std::function<void(Scene&)>& work,
              const std::function<void(Scene&)>& after) {
  const echelon::test::TempDir dir;
  bool swapped = true;
  for (int nth = 1; swapped && nth < 2000; nth += echelon::test::long_form() ? 1 : share) {
    const Scene* swapping = nullptr;
    // Before the scene, whose servers may still be closing what they have sent when the work is done.
    echelon::test::SwappingDisk disk(nth, [&] { swapping->swap(how); });
    Scene scene(dir.path() / "scene", hosts);
    swapping = &scene;
    {
      const fs::DiskInUse in_use(disk);
      work(scene);
      swapped = disk.has_swapped();
    }
    EXPECT_TRUE(tree_of(scene.victim) == scene.untouched) << "swapped before call " << nth;
    if (swapped) after(scene);
    if (testing::Test::HasFailure()) FAIL() << "swapped before call " << nth;
  }
}

void sweep(Swap how, const std::function<void(Scene&)>& work, const std::function<void(Scene&)>& after) {
  sweep_on({"a", "a"}, 9, how, work, after);
  sweep_on({"a", "b"}, 97, how, work, after);
}

void expect_private(const Path& root) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    struct stat info {};
    EXPECT_EQ(::lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077U, 0U) << entry.path();
  }
}

void save_over(Scene& scene) {
  (void)scene.nodes->save(20, {scene.nodes->step(0, 10).filename().string()});
}

TEST(MemoryFolderSwapped, BeforeAnyCallOfASaveTouchesNothingElse) {
  testing::internal::CaptureStderr();
  for (const Swap how : {Swap::kLink, Swap::kInner}) {
    sweep(how, save_over, [how](Scene& scene) {
      const Hosts errors = scene.nodes->save(30);
      ASSERT_FALSE(errors.empty());
      EXPECT_MENTIONS(errors[0], "is a symbolic link");
      EXPECT_TRUE(tree_of(scene.victim) == scene.untouched);
      std::filesystem::remove(how == Swap::kLink ? scene.run.parent_path() : scene.run);
      EXPECT_EQ(scene.nodes->save(40), Hosts{});
    });
  }
  (void)testing::internal::GetCapturedStderr();
}

TEST(MemoryFolderVanished, BeforeAnyCallOfASaveFailsThatSaveAndTheNextIsPrivate) {
  testing::internal::CaptureStderr();
  sweep(Swap::kGone, save_over, [](Scene& scene) {
    EXPECT_EQ(scene.nodes->save(30), Hosts{});
    expect_private(scene.run.parent_path().parent_path());
    EXPECT_EQ(scene.nodes->whole_steps().front(), 30);
  });
  EXPECT_MENTIONS(testing::internal::GetCapturedStderr(), "vanished from");
}

TEST(MemoryFolderSwapped, BeforeAnyCallOfARestoreOrTheEndTouchesNothingElse) {
  testing::internal::CaptureStderr();
  for (const Swap how : {Swap::kLink, Swap::kInner, Swap::kGone}) {
    const auto work = [](Scene& scene) {
      (void)error_of([&] {
        const MemoryChoice choice = scene.nodes->choice();
        if (!choice.whole.empty()) (void)scene.nodes->wrong_on(0, choice.whole[0]);
      });
      scene.nodes->folder(0).remove();
    };
    sweep(how, work, [](Scene&) {});
  }
  (void)testing::internal::GetCapturedStderr();
}

TEST(MemoryFolderSwapped, IsNotCollected) {
  const echelon::test::TempDir dir;
  const Scene scene(dir.path() / "scene", {"a", "a"});
  scene.swap(Swap::kLink);
  EXPECT_MENTIONS(error_of([&] { (void)memory_in_use(scene.run); }), "is a symbolic link");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(remove_old_memory(scene.root / "a", -1).empty());
  (void)testing::internal::GetCapturedStderr();
  EXPECT_TRUE(tree_of(scene.victim) == scene.untouched);
}

}  // namespace
}  // namespace echelon::checkpoint::test
