"""echelon train --ranks: exit codes, signals and deaths reach the right side, and nothing stays behind."""
import pathlib
import re
import signal
import subprocess
import time

import product

ENDLESS = ["train.steps=1000000", *product.ALWAYS_CONSTANT, "train.global_batch_size=6"]


class Tests(product.Case):
    def start_endless(self, ranks=2, run="run"):
        """A run that is in the middle of training; returns the launcher and the ids of its ranks."""
        process = self.start(*self.train_command(self.recipe(), *ENDLESS, f"run.dir={run}", ranks=ranks))
        self.wait_for_step(3, run, process=process)
        pids = product.rank_processes(process.pid)
        self.assertEqual(ranks, len(pids))
        return process, pids

    def assert_gone(self, pids):
        self.wait_for("all processes to be gone", lambda: not any(map(product.alive, pids)))

    def error_lines(self):
        return [line for line in self.stderr_of_started().splitlines() if line.startswith("echelon: ")]

    def test_a_bad_recipe_is_2_with_one_line(self):
        result = self.train(self.recipe(), "train.global_batch_size=7", ranks=2, code=2)
        self.assertEqual(1, result.err.count("\n"), result.err)

    def test_an_error_all_ranks_agree_on_is_one_line(self):
        (self.folder / "tokens").write_text("no tokens")
        result = self.train(self.recipe(), "data.kind=tokens", "data.path=tokens", ranks=3, code=4)
        self.assertRegex(result.err, r"^echelon: token file 'tokens' is not a token file [^\n]+\n$")

    def test_more_and_less_is_printed_as_asked(self):
        recipe = self.recipe()
        usual, verbose, quiet = (self.train(recipe, "train.steps=3", *words, ranks=2).err for words in
                                 (["run.dir=a"], ["run.dir=b", "--log-level", "debug"], ["run.dir=c", "-q"]))
        details = ("memory of the process before the model: ", "start: launch ", "memory of this rank: ", "model.embed_tokens ")
        for detail in details:
            self.assertNotIn(detail, usual)
            self.assertIn(detail, verbose)
            self.assertIn(detail, (self.folder / "c/logs/rank-0.log").read_text())
        self.assertIn("step 3/3 ", usual)
        self.assertEqual("", quiet)
        self.assertIn("excludes", self.train(recipe, "-v", "-q", code=2).err)
        self.assertIn("excludes", self.train(recipe, "-v", "--log-level", "warn", code=2).err)
        self.assertIn("--log-level: loud not in {warn,info,debug}", self.train(recipe, "--log-level", "loud", code=2).err)

    def test_sigterm_to_the_launcher_is_85_with_a_checkpoint(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT):
            run = number.name
            if signal.getsignal(number) == signal.SIG_IGN:  # under nohup, or in the background of a script
                signal.signal(number, signal.SIG_DFL)
            process, pids = self.start_endless(run=run)
            began = len(product.whole_lines(self.folder / run / "metrics.jsonl"))
            self.stop(process, number)
            self.assert_gone(pids)
            self.assertEqual([], self.error_lines())
            self.assertGreaterEqual(len(self.metrics(run)), began)
            self.command(product.CKPT, "verify", self.checkpoints(run)[-1])

    def test_a_second_interrupt_is_130(self):
        process, pids = self.start_endless()
        product.kill(pids[1], signal.SIGSTOP)  # the ranks cannot agree to stop
        process.send_signal(signal.SIGINT)
        self.wait_for("rank 0 to have it", lambda: self.has_taken(pids[0], signal.SIGINT))
        process.send_signal(signal.SIGINT)
        self.assertEqual(130, process.wait(product.WAIT_S), self.stderr_of_started())
        self.assertRegex(self.error_lines()[-1], r"^echelon: ended at once by signal 2 \(Interrupt\), as requested")
        self.assert_gone(pids)

    def has_taken(self, pid, number):
        """It was told to stop: a rank that waits for another one says nothing, but does not hold the signal back."""
        time.sleep(0.3)
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        masks = dict(line.split(":\t") for line in lines if line.startswith(("SigPnd", "ShdPnd")))
        return not any(int(mask, 16) >> (number - 1) & 1 for mask in masks.values())

    def test_a_reader_that_goes_stops_nothing(self):
        for ranks in (1, 2):
            run = f"run-{ranks}"
            command = self.train_command(self.recipe(), "train.steps=40", f"run.dir={run}", ranks=ranks)
            process = subprocess.Popen([str(word) for word in command], cwd=self.folder, env=product.environment(),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(self.end, process)
            self.assertNotEqual(b"", process.stdout.readline())
            process.stdout.close()  # a pager is closed, tee is killed
            self.assertEqual(0, process.wait(product.WAIT_S))
            self.assertEqual(40, len(self.metrics(run)))
            self.command(product.CKPT, "verify", run)

    def test_a_start_waits_for_ranks_that_are_leaving(self):
        process, pids = self.start_endless()
        product.kill(process.pid, signal.SIGKILL)  # mpirun notices and ends its ranks, which takes a while
        process.wait(product.WAIT_S)
        self.train("recipe.yaml", "train.steps=3", "train.global_batch_size=6", ranks=2)
        self.assert_gone(pids)

    def test_a_killed_rank_is_7_with_one_line_that_names_it(self):
        process, pids = self.start_endless(ranks=3)
        killed = time.monotonic()
        product.kill(pids[1], signal.SIGKILL)
        self.assertEqual(7, process.wait(product.WAIT_S), self.stderr_of_started())
        self.assertLess(time.monotonic() - killed, 20)  # seconds when idle
        lines = self.error_lines()
        self.assertRegex(lines[-1], r"^echelon: rank 1 was ended by signal 9 \(Killed")
        for line in lines[:-1]:  # ranks that noticed before they were stopped
            self.assertRegex(line, r"^echelon: rank [02]/3 \S+: rank 1 \(\S+\) has (ended|died)")
        self.assertLessEqual(len(lines), 3)
        self.assert_gone(pids)

    def test_a_frozen_rank_is_7_and_the_line_names_it_and_why(self):
        for frozen, text in ((2, r"rank 2 \(\S+\) has sent no heartbeat for .* is stopped by a signal \(SIGSTOP\)$"),
                             (0, r"rank 0 \(\S+\) has sent no heartbeat for ")):
            run = f"frozen-{frozen}"
            process = self.start(*self.train_command(
                self.recipe(), *ENDLESS, f"run.dir={run}", "cluster.heartbeat_interval_s=0.2",
                "cluster.heartbeat_timeout_s=2", ranks=3))
            self.wait_for_step(3, run, process=process)
            pids = product.rank_processes(process.pid)
            product.kill(self.rank_of(pids, frozen), signal.SIGSTOP)
            self.assertEqual(7, process.wait(product.WAIT_S), self.stderr_of_started())
            self.assertRegex("\n".join(self.error_lines()), re.compile(text, re.M))
            self.assertTrue((self.folder / run / "logs" / "peer-failure.txt").exists())
            self.assert_gone(pids)

    @staticmethod
    def rank_of(pids, rank):
        """The process of that rank among `pids`."""
        for pid in pids:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"PMIX_RANK={rank}".encode() in file.read().split(b"\0"):
                    return pid
        raise AssertionError(f"no rank {rank} among {pids}")

    def test_a_killed_launcher_takes_its_ranks_along(self):
        process, pids = self.start_endless()
        everyone = product.descendants(process.pid)
        self.assertTrue(set(pids) <= set(everyone))
        process.kill()
        process.wait(product.WAIT_S)
        self.assert_gone(everyone)

    def test_nothing_but_progress_is_printed(self):
        result = self.train(self.recipe(), "train.steps=3", ranks=2)
        self.assertEqual("", result.out)
        for line in result.err.splitlines():
            self.assertTrue(product.PROGRESS.match(line), result.err)
        self.assertEqual(1, len(re.findall(r"^step 3/3 ", result.err, re.M)), result.err)


if __name__ == "__main__":
    product.main()
