"""Checkpoints in the memory of a node (a folder of the test stands for it): ranks die, memory is damaged, full, foreign or
of another run. The run goes on from the newest state that is whole, and ends bit for bit as if nothing had happened.
"""
import contextlib
import os
import re
import shutil
import time

import product

STEPS = 80  # most saves may be left out
EVERY_2 = {"train.steps": STEPS, "checkpoint.memory_every_steps": 2, "metrics.every_steps": 1}
# Save after save: which steps those are hangs on how busy the machine is, because a save that is due while the last one is
# still being written is left out.
SIZES = r"\b([0-9a-f]{8}|[0-9a-f]{16}|\d{4,}|\d+(\.\d+)? (GiB|MiB|KiB|B))\b"


class Tests(product.Case):
    def setUp(self):
        super().setUp()
        self.memory = self.folder / "shm"
        self.memory.mkdir()

    def memory_recipe(self, **overrides):
        return self.recipe(**{**EVERY_2, "checkpoint.memory_dir": self.memory, **overrides})

    def kill_in(self, point, *more, ranks=2):
        """A start in which a rank is killed at `point`; returns what was said."""
        return self.command(*self.train_command("recipe.yaml", *more, ranks=ranks), code=7, ECHELON_KILL_POINT=point).err

    def files(self, pattern="*.h5"):
        """What is in memory, the newest step first."""
        return sorted((path for path in self.memory.rglob(pattern) if path.is_file()), reverse=True)

    def steps_in_memory(self):
        return sorted({int(path.parent.name[5:14]) for path in self.files("NODE.json")})

    def flip_in(self, path):
        self.flip(path.relative_to(self.folder), path.stat().st_size - 1)

    def ends_as_undisturbed(self, ranks=2):
        """Without saves to memory, so that these are seen to change nothing. Nothing stays in memory."""
        if not (self.folder / "whole").exists():
            self.train("recipe.yaml", "run.dir=whole", "checkpoint.memory_every_steps=0", "checkpoint.memory_dir=/dev/shm",
                       ranks=ranks)
        self.assertEqual(self.losses("whole", STEPS), self.losses("run", STEPS))
        self.command(product.CKPT, "diff", "run", "whole")
        self.assertEqual([], list(self.memory.iterdir()))

    # -- ranks die

    def test_a_killed_rank_costs_the_steps_since_the_last_save(self):
        self.memory_recipe()
        self.kill_in("staged:1:4")
        self.assertEqual([], self.checkpoints())  # none counts as committed
        newest = self.steps_in_memory()[-1]
        result = self.train("recipe.yaml", ranks=2)
        self.assertIn(f"resumed from step {newest} (memory of node ", result.err)
        self.ends_as_undisturbed()

    def test_another_number_of_ranks_goes_on_from_memory(self):
        """What LoRA leaves out is in the base."""
        self.train(self.recipe("base.yaml", **{"train.steps": 1, "schedule.warmup_steps": 0}), "run.dir=base")
        self.memory_recipe(**{"lora.rank": 3, "checkpoint.init_from": "base"})
        self.kill_in("memory_whole:0:3", ranks=3)
        newest = self.steps_in_memory()[-1]
        held = b"".join(path.read_bytes() for path in self.files())
        self.assertIn(b"model.layers.0.mlp.up_proj.lora_A.weight", held)
        self.assertNotIn(b"model.layers.0.mlp.up_proj.weight", held)
        self.assertIn(f"resumed from step {newest} (memory of node ", self.train("recipe.yaml", ranks=2).err)
        self.losses("run", STEPS)
        self.assertEqual([], list(self.memory.iterdir()))

    def test_the_newer_of_disk_and_memory_wins(self):
        self.memory_recipe(**{"checkpoint.every_steps": 5})
        self.kill_in("committed:0:2")
        committed = max(int(folder.name[5:14]) for folder in self.checkpoints() if (folder / "COMMIT").exists())
        newest = max([committed, *self.steps_in_memory()])
        result = self.train("recipe.yaml", ranks=2)
        where = "" if newest == committed else " (memory of node "
        self.assertIn(f"resumed from step {newest}{where}", result.err)
        self.ends_as_undisturbed()

    # -- memory is damaged

    def test_damage_falls_back_to_the_save_before_and_then_to_the_disk(self):
        self.memory_recipe(**{"checkpoint.every_steps": 3})
        self.kill_in("memory_whole:0:5", "checkpoint.async=false")  # step 3 is on the disk by then
        older, newer = self.steps_in_memory()[-2:]
        saved = self.folder / "saved"
        shutil.copytree(self.memory, saved)
        shutil.copytree(self.folder / "run", self.folder / "run-saved")
        self.flip_in(self.files()[0])
        result = self.train("recipe.yaml", ranks=2)
        self.assertIn(f"warning: step {newer} in memory is DAMAGED and is skipped, trying the previous one: ", result.err)
        self.ends_as_undisturbed()
        # Once more, with everything in memory damaged.
        shutil.rmtree(self.memory)
        shutil.rmtree(self.folder / "run")
        saved.rename(self.memory)
        (self.folder / "run-saved").rename(self.folder / "run")
        for path in self.files():
            self.flip_in(path)
        result = self.train("recipe.yaml", ranks=2)
        self.assertNotIn("(memory of", result.err)
        self.assertRegex(result.err, r"resumed from step \d+\n")
        self.ends_as_undisturbed()

    def test_a_torn_note_and_a_missing_shard_are_refused(self):
        self.memory_recipe()
        self.kill_in("memory_whole:0:4")
        notes = self.files("NODE.json")
        notes[0].write_bytes(notes[0].read_bytes()[:-20])
        self.files()[-1].unlink()
        result = self.train("recipe.yaml", ranks=2)
        self.assertRegex(result.err, r"warning: memory of .*NODE.json'.* (is damaged|not valid JSON)")
        self.assertRegex(result.err, r"warning: memory checkpoint not used: step \d+ \(save [0-9a-f]{8}\) in the memory of "
                                     r".*: shard \d of 2 are on no node of this job")
        self.assertNotIn("resumed from", result.err)
        self.ends_as_undisturbed()

    # -- memory of somebody else

    def test_a_run_that_begins_anew_does_not_find_the_memory_of_its_predecessor(self):
        self.memory_recipe()
        self.kill_in("memory_whole:0:3")
        shutil.rmtree(self.folder / "run")
        self.assertNotIn("resumed from", self.train("recipe.yaml", ranks=2).err)
        self.ends_as_undisturbed()

    def test_what_a_killed_job_left_goes_after_a_day(self):
        self.memory_recipe()
        self.kill_in("memory_whole:0:1")
        for path in [self.memory, *self.memory.rglob("*")]:
            os.utime(path, (0, 0))
        other = self.command(*self.train_command("recipe.yaml", "run.dir=other", "train.steps=3"))
        self.assertEqual(0, other.code)
        self.assertEqual([], list(self.memory.iterdir()))

    def test_folders_that_others_could_enter_are_refused(self):
        self.memory_recipe()
        mine = self.memory / f"echelon-{os.geteuid()}"
        hide = SIZES + "|" + re.escape(str(self.folder)) + "|(?<=echelon-)" + str(os.geteuid())
        mine.mkdir(mode=0o755)
        mine.chmod(0o755)
        self.expect(2, *self.train_command("recipe.yaml"), hide=hide)
        mine.rmdir()
        mine.symlink_to(self.folder)
        self.expect(2, *self.train_command("recipe.yaml"), hide=hide)
        mine.unlink()
        mine.write_text("")
        self.expect(2, *self.train_command("recipe.yaml"), hide=hide)
        self.memory_recipe(**{"checkpoint.memory_dir": "/nowhere"})
        self.expect(2, *self.train_command("recipe.yaml"), hide=hide)

    # -- room

    def test_too_little_room_is_said_before_training(self):
        self.memory_recipe(**{"checkpoint.memory_limit_gib": 0.0001})
        self.expect(2, *self.train_command("recipe.yaml", ranks=2), hide=SIZES + "|" + re.escape(str(self.folder)))
        self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())

    def test_too_little_room_behind_a_resume_from_memory_is_a_warning(self):
        self.memory_recipe()
        self.kill_in("staged:1:4")
        result = self.train("recipe.yaml", "checkpoint.memory_limit_gib=0.0001", ranks=2)
        self.assertIn("(memory of node ", result.err)
        self.assertRegex(result.err, "memory checkpoints do not fit on .*; they are off until the next start")
        self.ends_as_undisturbed()

    def test_memory_that_becomes_full_is_a_warning_until_it_is_off(self):
        self.mount(self.memory, "-o", "size=64m,nr_inodes=100,mode=777")
        self.memory_recipe(**{"train.steps": 100000})
        process = self.start(*self.train_command("recipe.yaml", ranks=2))
        self.wait_for_step(5, process=process)
        with contextlib.suppress(OSError):  # until there is no room for another file
            for number in range(100):
                (self.memory / f"filler-{number}").touch()
        self.wait_for("three failed saves", lambda: "memory checkpoints are off" in self.stderr_of_started())
        self.stop(process)
        said = self.stderr_of_started()
        self.assertRegex(said, r"warning: step \d+ was not saved to memory: .*No space left on device; training continues")
        self.assertRegex(said, r"; that is 3 in a row: memory checkpoints are off until the next start")
        self.assertEqual([], list(self.memory.glob("echelon-*")))

    # -- the end

    def test_a_last_save_to_disk_that_fails_leaves_what_is_in_memory(self):
        self.memory_recipe()
        self.train("recipe.yaml", "train.steps=9", "checkpoint.timeout_s=1", "checkpoint.max_write_mb_per_s=0.02", ranks=2,
                   code=5)
        self.assertEqual([], self.checkpoints())
        newest = self.steps_in_memory()[-1]
        result = self.train("recipe.yaml", f"train.steps={newest}", ranks=2)
        self.assertIn(f"resumed from step {newest} (memory of node ", result.err)
        self.assertEqual([newest], [int(folder.name[5:14]) for folder in self.checkpoints()], "complete, and now on disk")
        self.assertEqual([], list(self.memory.iterdir()))

    def test_who_removes_checkpoints_to_go_back_is_followed(self):
        for how in ["false", "true"]:
            self.memory_recipe(**{"checkpoint.every_steps": 4, "checkpoint.keep_last": 0, "checkpoint.async": how})
            self.kill_in("memory_whole:0:5")
            oldest = self.steps_in_memory()[0]
            steps = {folder: int(folder.name[5:14]) for folder in self.checkpoints()}
            followed = max(step for step in steps.values() if step < oldest)
            for folder, step in steps.items():
                if step >= followed:
                    shutil.rmtree(folder)
            result = self.train("recipe.yaml", ranks=2)
            self.assertIn("has been removed from disk, so the run goes back to what is there", result.err)
            self.assertNotIn("(memory of node", result.err)
            self.ends_as_undisturbed()
            shutil.rmtree(self.folder / "run")

    def test_a_stop_leaves_nothing_in_memory(self):
        self.memory_recipe(**{"train.steps": 100000})
        process = self.start(*self.train_command("recipe.yaml", ranks=2))
        self.wait_for_step(5, process=process)
        self.stop(process)
        self.assertEqual([], list(self.memory.iterdir()))
        self.assertEqual(1, len(self.checkpoints()))

    def test_a_stop_before_the_first_step_saves_what_came_from_memory(self):
        self.memory_recipe(**{"train.steps": 100000})
        self.kill_in("staged:1:4")
        newest = self.steps_in_memory()[-1]
        process = self.start(*self.train_command("recipe.yaml", ranks=2))
        self.wait_for("the ranks to look for one", lambda: "looking for a checkpoint" in self.stderr_of_started())
        self.stop(process)
        [saved] = self.checkpoints()
        self.assertGreaterEqual(int(saved.name[5:14]), newest)
        self.assertEqual([], list(self.memory.iterdir()))

    def test_too_little_time_behind_a_resume_from_memory_is_used_to_save(self):
        self.memory_recipe(**{"train.steps": 100000})
        self.train("recipe.yaml", "train.steps=3", ranks=2)  # measures a save
        self.kill_in("memory_whole:0:3")
        newest = self.steps_in_memory()[-1]
        result = self.command("env", f"SLURM_JOB_END_TIME={int(time.time() + 60)}",
                              *self.train_command("recipe.yaml", "cluster.stop_margin_s=600", ranks=2), code=85)
        self.assertRegex(result.err, r"stopped during initialization, after reading the checkpoint \(.*one more step .* do not fit")
        self.assertIn(newest, [int(folder.name[5:14]) for folder in self.checkpoints()])
        self.assertEqual([], list(self.memory.iterdir()))

    def test_resume_never_and_must_know_of_memory(self):
        self.memory_recipe()
        self.kill_in("memory_whole:0:2")
        self.expect(2, *self.train_command("recipe.yaml", "checkpoint.resume=never", ranks=2))
        self.assertIn("(memory of node", self.train("recipe.yaml", "checkpoint.resume=must", ranks=2).err)

    def test_gc_removes_what_a_killed_job_left(self):
        self.memory_recipe()
        self.kill_in("memory_whole:0:2")
        self.assertIn("would remove 1", self.command(product.CKPT, "gc", "run").out)
        shutil.copytree(self.folder / "run", self.folder / "copy")
        self.assertIn("from which this one was copied", self.command(product.CKPT, "gc", "copy", "--yes").err)
        self.assertNotEqual([], self.files())
        self.assertIn("removed 1 of 1", self.command(product.CKPT, "gc", "run", "--yes").out)
        self.assertEqual([], self.files())


if __name__ == "__main__":
    product.in_own_mounts()
    product.main()
