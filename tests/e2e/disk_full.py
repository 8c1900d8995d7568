"""A file system without room for another checkpoint: the run goes on, nothing committed is lost, and the end says so.

The file system is a small one in memory, mounted where only this test sees it."""
import product

# A checkpoint of TINY has 0.8 MB; one fits beside the logs, two do not.
ROOM, MORE_ROOM = "size=1200k", "size=8m"


class Tests(product.Case):
    def start_on_a_small_disk(self, *overrides, ranks):
        (self.folder / "run").mkdir()
        self.mount(self.folder / "run", "-o", ROOM)
        self.recipe(**{"train.steps": 6, "checkpoint.every_steps": 2})
        return self.expect(5, *self.train_command("recipe.yaml", *overrides, ranks=ranks), hide=r"[\d.]+ [KM]iB")

    def full_disk(self, ranks):
        self.start_on_a_small_disk(ranks=ranks)
        self.assertEqual(6, len(self.metrics()), "training went on past the save that failed")
        only, = self.checkpoints()
        self.assertEqual("step-000000002", only.name.rpartition(".")[0])
        self.command(product.CKPT, "verify", only)
        self.mount(self.folder / "run", "-o", "remount," + MORE_ROOM)
        again = self.train("recipe.yaml", ranks=ranks)
        self.assertIn("resumed from step 2\n", again.err)
        self.train("recipe.yaml", "run.dir=whole", ranks=ranks)
        self.assertEqual(self.losses("whole", 6), self.losses("run", 6))
        self.assertEqual(self.weights("whole"), self.weights("run"))

    def test_a_disk_without_room_for_the_files_of_a_run_is_no_fault_of_the_recipe(self):
        (self.folder / "run").mkdir()
        self.mount(self.folder / "run", "-o", "size=4k")
        self.recipe(**{"train.steps": 6})
        self.expect(3, *self.train_command("recipe.yaml"), hide=r"[0-9a-f]{8}(?=\.tmp)")

    def test_disk_full_on_1_rank(self):
        self.full_disk(1)

    def test_disk_full_on_2_ranks(self):
        self.full_disk(2)


if __name__ == "__main__":
    product.in_own_mounts()
    product.main()
