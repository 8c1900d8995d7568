"""The job script and the supervisor that it starts, on a machine without Slurm, whose commands are stand-ins: what they
take from files that others may have written in the run's logs/, and which folders they refuse."""
import os
import signal
import subprocess
import time

import product

SCRIPT = product.TOP / "cluster" / "slurm" / "train.sbatch"
OTHER = 54321  # a user and a group that are not ours

COMMANDS = {
    "scontrol": '[[ $1 != show || $2 != hostnames ]] || tr , "\\n" <<<"$3"',
    "squeue": "case $* in *%N*) echo n0,n1 ;; *%T*) echo PENDING ;; esac",  # it does not queue itself again
    "sinfo": 'printf "%s idle\\n" n0 n1',
    # Either the ranks, or the question which nodes are fit. Ranks of the first start leave the note that the test wants.
    "srun": """if [[ $* == *clear_away* ]]; then printf '%s\\n' n0 n1; exit; fi
               echo "${ECHELON_RESTART_IN_PLACE:-0} ${ECHELON_RESTART_CAUSE:-}" >>starts
               if [[ ${ECHELON_RESTART_IN_PLACE:-} ]]; then echo "$EPOCHREALTIME" >run/.lock; exit 0; fi
               sed "s/@TOKEN@/$ECHELON_NOTE_TOKEN/" note >run/logs/peer-failure.txt
               exit 7""",
}
COMMAND = "nodes[$(touch${IFS}pwned)]"  # a shell that took this word for a number would run the command
NOTE = "failed 1.5 step 7 rank 1 node n1 suspect 0 token @TOKEN@".split()


class Tests(product.Case):
    def setUp(self):
        super().setUp()
        (self.folder / "commands").mkdir()
        for name, text in COMMANDS.items():
            self.command(name, text)
        self.recipe()

    def command(self, name, text):
        command = self.folder / "commands" / name
        command.write_text(f"#!/usr/bin/env bash\n{text}\n")
        command.chmod(0o755)

    def job(self, note=NOTE, meanwhile=lambda process: None, **more):
        """Runs the script as Slurm would, with that second line of the note; returns its output and exit code."""
        (self.folder / "note").write_text(f"1.5 17 0 rank 1 has died\n{' '.join(note)}\n")
        (self.folder / "starts").write_text("")
        with subprocess.Popen(["bash", SCRIPT, "recipe.yaml"], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=product.environment(
                                  PATH=f"{self.folder}/commands:{os.environ['PATH']}", ECHELON_BIN=product.ECHELON,
                                  SLURM_JOB_ID="17", SLURM_JOB_NODELIST="n0,n1", SLURM_NTASKS_PER_NODE="1",
                                  SLURM_JOB_PARTITION="p", SLURM_JOB_NUM_NODES="2", SLURMD_NODENAME="n0", **more)) as process:
            try:
                meanwhile(process)
                out, err = process.communicate(timeout=product.WAIT_S)
            except BaseException:
                process.kill()
                raise
        return product.Result([SCRIPT], process.returncode, out, err)

    def starts(self):
        return (self.folder / "starts").read_text().splitlines()

    def test_a_note_of_the_ranks_starts_them_again(self):
        result = self.job()
        self.assertEqual(0, result.code, str(result))
        self.assertEqual(["0 ", "1 rank 1 has died"], self.starts())
        self.assertIn("starts again in place on n0,n1", result.err)

    def test_a_stop_reaches_ranks_that_slurm_did_not_signal(self):
        self.command("srun", "trap 'echo stop >>asked; exit 85' USR2; touch running; for _ in {1..400}; do sleep 0.05; done")
        def stop(process):
            self.wait_for("ranks", (self.folder / "running").exists)
            process.send_signal(signal.SIGTERM)
        result = self.job(meanwhile=stop)
        self.assertEqual(85, result.code, str(result))
        self.assertEqual("stop\n", (self.folder / "asked").read_text())

    def test_a_step_without_ranks_is_no_success(self):
        gives_up = "echo srun: error: timeout waiting for task launch, started 0 of 2 tasks >&2"
        for srun, code in ((gives_up, 71), ("echo the first >run/.lock", 0), (gives_up, 71)):
            self.command("srun", srun)
            result = self.job()
            self.assertEqual(code, result.code, str(result))
            self.assertEqual(code == 71, "job 17 started no rank, although srun reports success" in result.err, str(result))

    def test_a_step_has_the_tasks_of_its_job(self):
        self.command("srun", "echo $* >asked; echo $EPOCHREALTIME >run/.lock")
        for tasks, asked in (("2", "--ntasks=2 --ntasks-per-node=1 "), ("4", "--ntasks=4 --ntasks-per-node=2 "), ("3", "")):
            result = self.job(SLURM_NTASKS=tasks)
            self.assertEqual(0, result.code, str(result))
            command = (self.folder / "asked").read_text()
            self.assertIn(asked, command)
            self.assertEqual(bool(asked), "--ntasks" in command, command)

    def test_a_controller_that_is_away_or_refuses_for_a_while_ends_no_job(self):
        count = 'n=$(cat {0} 2>/dev/null || echo 0); echo $((n + 1)) >{0}; ((n < {1})) && exit 1'
        self.command("srun", "exit 85")
        self.command("squeue", f"case $* in *%N*) echo n0,n1 ;; *%T*) {count.format('asked', 2)}; echo RUNNING ;; esac")
        # Slurm ends a job that it requeues.
        self.command("scontrol", '[[ $1 != show || $2 != hostnames ]] || tr , "\\n" <<<"$3"\n'
                            f"if [[ $1 == requeue ]]; then {count.format('refused', 4)}; touch requeued; kill -KILL $PPID; fi")
        result = self.job()
        self.assertTrue((self.folder / "requeued").exists(), str(result))
        self.assertIn("gets no answer from Slurm's controller and asks again", result.err)

    def test_a_job_that_a_task_of_an_array_submitted_is_not_that_task(self):
        self.command("srun", "exit 85")
        self.command("squeue", "case $* in *%i*) echo 17 ;; *%T*) echo RUNNING ;; *) echo n0,n1 ;; esac")
        # Slurm ends a job that it requeues.
        self.command("scontrol", '[[ $1 != show || $2 != hostnames ]] || tr , "\\n" <<<"$3"\n'
                                 "if [[ $1 == requeue ]]; then echo $2 >requeued; kill -KILL $PPID; fi")
        result = self.job(SLURM_ARRAY_JOB_ID="9", SLURM_ARRAY_TASK_ID="3")
        self.assertEqual("17\n", (self.folder / "requeued").read_text(), str(result))

    def test_nodes_of_exclude_stay_excluded_and_suspects_for_a_day(self):
        self.command("srun", "exit 85")
        self.command("squeue", "echo RUNNING")
        self.command("sinfo", "for n in {0..7}; do echo n$n n$n idle; done")
        # Slurm ends a job that it requeues.
        self.command("scontrol", """case $* in
            "show hostnames "*) tr , "\\n" <<<"$3" ;;
            *"show job "*) echo "JobId=17 ExcNodeList=$(cat excluded) Features=(null)" ;;
            *ExcNodeList=*) echo "${3#ExcNodeList=}" >excluded; kill -KILL $PPID ;;
            esac""")
        suspects = self.folder / "run" / "logs" / "suspects.txt"
        suspects.parent.mkdir(parents=True)
        excluded = self.folder / "excluded"
        excluded.write_text("n6,n7\n")  # n7 was a suspect, too
        suspects.write_text(f"1 n7 9 no sign\n{time.time()} n1 17 no sign\n")
        result = self.job()
        self.assertEqual("n6,n7,n1\n", excluded.read_text(), str(result))
        commit = self.folder / "run" / "checkpoints" / "step-000000005.0000000a" / "COMMIT"
        commit.parent.mkdir(parents=True)
        commit.touch()
        suspects.write_text("1 n7 9 no sign\n1 n1 17 no sign\n")  # a day later
        result = self.job(SLURM_RESTART_COUNT="1")
        self.assertEqual("n6,n7\n", excluded.read_text(), str(result))

    def test_a_note_without_the_token_is_nobodys(self):
        for note in (NOTE[:-2], NOTE[:-1] + ["0123456789abcdef0123456789abcdef"], NOTE[:-1]):
            result = self.job(note)
            self.assertEqual(["0 ", "1 lost a rank or the connection to it"], self.starts(), str(result))

    def test_no_word_of_a_note_is_computed(self):
        for note in ([COMMAND if n == place else word for n, word in enumerate(words)]
                     for words in (NOTE[:-2], NOTE) for place in range(1, len(words), 2)):
            result = self.job(note)
            self.assertFalse((self.folder / "pwned").exists(), f"{note}: {result}")
            self.assertEqual(0, result.code, str(result))

    def test_no_word_of_the_other_files_is_computed(self):
        logs = self.folder / "run" / "logs"
        logs.mkdir(parents=True)
        for line in (f"start {COMMAND} 1", f"lost {COMMAND} {COMMAND} {COMMAND} 1", f"lost 7 1 {COMMAND} 1", f"{COMMAND} {COMMAND} {COMMAND} {COMMAND}"):
            for name in ("starts-17.txt", "suspects.txt"):
                (logs / name).write_text(f"{line}\n" * 3)
            (self.folder / "run" / "checkpoints" / f"step-{COMMAND}.x").mkdir(parents=True, exist_ok=True)
            (self.folder / "run" / "checkpoints" / f"step-{COMMAND}.x" / "COMMIT").touch()
            result = self.job(SLURM_RESTART_COUNT="1")
            self.assertFalse((self.folder / "pwned").exists(), str(result))

    def test_folders_that_others_can_change_are_refused(self):
        run = self.folder / "run"
        logs = run / "logs"
        logs.mkdir(parents=True)
        def refused(folder, named):
            result = self.job()
            self.assertEqual(2, result.code, str(result))
            self.assertRegex(result.err, f"cannot start: the folder '{named}' (belongs to|can be written by) ")
            self.assertEqual([], self.starts())
            self.recipe(**{"run.allow_foreign_folder": True})
            self.assertEqual(0, self.job().code)
            self.recipe()
            folder.chmod(0o755)
        for folder, named in ((run, "run"), (logs, "run/logs")):
            folder.chmod(0o1777)
            refused(folder, named)
            if os.geteuid() == 0:
                os.chown(folder, 0, OTHER)
                folder.chmod(0o775)
                refused(folder, named)
                os.chown(folder, OTHER, 0)
                refused(folder, named)
                os.chown(folder, 0, 0)
        self.assertEqual(0, self.job().code)

    def test_what_a_job_makes_only_its_user_can_change(self):
        before = os.umask(0o002)
        self.addCleanup(os.umask, before)
        self.assertEqual(0, self.job().code)
        for path in (self.folder / "run", *(self.folder / "run").rglob("*")):
            self.assertEqual(0, path.stat().st_mode & 0o022, str(path))


if __name__ == "__main__":
    product.main()
