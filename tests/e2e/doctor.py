"""echelon doctor: nothing to say where all is well, and each seeded fault named by its check.

What cannot be broken for real is faked where the doctor looks: programs in PATH, files below --root, failing system
calls by a preloaded library, small and read-only file systems in a mount namespace of this test's own. What needs
several nodes is in tests/slurm/doctor.sh."""
import json
import os
import pathlib
import re
import shutil
import tempfile

import product

SCHEMA = {"schema", "scope", "verdict", "elapsed_s", "exclude", "checks"}
CHECK = {"name", "verdict", "text", "advice", "nodes", "values"}

CONFIG = """Configuration data as of 2026-11-22T04:47:45
JobRequeue              = 1
KillWait                = 30 sec
MpiDefault              = pmix
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
SLURM_VERSION           = 25.11.6

MPI Plugins Configuration:
PMIxCollFence           = ring
"""
PARTITIONS = """PartitionName=gpu Default=YES GraceTime=0 MaxNodes=8 MaxTime=1-00:00:00 MaxCPUsPerNode=UNLIMITED \
Nodes=n[0-15] State=UP TotalCPUs=32 TotalNodes=16
PartitionName=short Default=NO GraceTime=0 MaxNodes=UNLIMITED MaxTime=00:02:00 Nodes=n[0-15] State=UP TotalNodes=16
PartitionName=old Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=n[0-15] State=DOWN TotalNodes=16
"""
NODES = """NodeName=n0 State=IDLE+CLOUD+POWERED_DOWN Partitions=gpu,short OS=Linux 6.1 #1 SMP BootTime=None
NodeName=n1 State=MIXED Partitions=gpu,short OS=Linux 6.1 #1 SMP Comment=
"""
MPI = "MPI plugin types are...\n\tpmix\n\tnone\nspecific pmix plugin versions available: pmix_v5\n"
GPU = "NVIDIA H100 80GB HBM3, 81559, 1980, 0x0000000000000000, 0\n"


class Tests(product.Case):
    def setUp(self):
        super().setUp()
        # Not in /tmp, which may lie in memory; that alone is worth a warning.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="doctor-", dir=pathlib.Path(product.ECHELON).parents[1]))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    # -- what the doctor is shown

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def slurm(self, config=CONFIG, partitions=PARTITIONS, nodes=NODES, mpi=MPI):
        """Slurm's commands as they answer on a cluster in order, or with other texts."""
        for name, text in {"config": config, "partition": partitions, "nodes": nodes, "mpi": mpi}.items():
            (self.folder / name).write_text(text)
        self.program("scontrol", f'for last; do :; done; cat "{self.folder}/$last"\n')
        self.program("srun", f'cat "{self.folder}/mpi"\n')

    def root(self, memory_kib=1 << 30, instance="", efa=0):
        """The files of a machine."""
        root = self.folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        files = {"proc/meminfo": f"MemTotal: {memory_kib} kB\n", "proc/sys/kernel/osrelease": "6.1.0\n",
                 "sys/devices/virtual/dmi/id/product_name": instance + "\n"}
        files.update({f"sys/class/infiniband/rdmap{n}s0/device/vendor": "0x1d0f\n" for n in range(efa)})
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name in ("dev/shm", "tmp"):
            (root / name).mkdir(parents=True)
        return root

    def mount(self, name, *options):
        target = self.folder / name
        target.mkdir(parents=True, exist_ok=True)
        super().mount(target, *options)
        return target

    # -- what it says

    def doctor(self, *arguments, code, **environment):
        """The checks of the report by name; a check that has several findings keeps the gravest."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        result = self.command(product.ECHELON, "doctor", *arguments, "--json", code=code, PATH=path, **environment)
        report = json.loads(result.out)
        self.assertEqual(SCHEMA, set(report))
        self.assertEqual(1, report["schema"])
        for check in report["checks"]:
            self.assertEqual(CHECK, set(check))
            self.assertIn(check["verdict"], ("ok", "unknown", "warning", "fault"))
            self.assertNotIn("\n", check["text"] + check["advice"])
            self.assertEqual(check["verdict"] in ("ok",), not check["advice"], check)
        faults = [check["name"] for check in report["checks"] if check["verdict"] == "fault"]
        if code:
            self.assertRegex(result.err, r"^echelon: doctor \w+ found \d+ faults? \([^\n]+\n$")
        self.assertEqual(3 if faults else 0, code, str(result))
        order = ["ok", "unknown", "warning", "fault"]
        return {check["name"]: check for check in sorted(report["checks"], key=lambda c: order.index(c["verdict"]))}

    def findings(self, checks):
        return {name: check["verdict"] for name, check in checks.items() if check["verdict"] != "ok"}

    def names(self, expected, *arguments, says="", **environment):
        """Exactly `expected` ({check: verdict}) is found; the text of its first check matches `says`."""
        code = 3 if "fault" in expected.values() else 0
        checks = self.doctor(*arguments, code=code, **environment)
        texts = "\n".join(f"{c['verdict']} {name}: {c['text']}" for name, c in checks.items())
        self.assertEqual(expected, self.findings(checks), texts)
        for name in list(expected)[:1]:
            self.assertRegex(checks[name]["text"], says or ".")
        return checks

    # -- doctor cluster

    def cluster(self, expected, *arguments, says="", environment=None, **slurm):
        self.slurm(**slurm)
        folder = [] if "--folder" in arguments else ["--folder", self.folder]
        return self.names(expected, "cluster", *folder, *arguments, says=says, **(environment or {}))

    def test_a_cluster_in_order_gives_no_finding(self):
        self.cluster({}, "--nodes", 2, "--tasks-per-node", 8, "--time", "12:00:00", "--recipe", self.recipe())

    def test_each_fault_of_slurms_settings_is_named(self):
        def changed(old, new, text=CONFIG):
            self.assertIn(old, text)
            return text.replace(old, new)

        old_slurm = changed("25.11.6", "24.11.7")
        root = self.root()
        pmix = root / "opt/pmix/lib/pkgconfig/pmix.pc"
        pmix.parent.mkdir(parents=True)
        for version, verdict in {"5.0.6": {}, "5.0.9": {"pmix_version": "fault"}}.items():
            pmix.write_text(f"Name: pmix\nVersion: {version}\n")
            self.cluster(verdict, "--root", root, config=old_slurm, says="Slurm 24.11.7 with PMIx 5.0.9 .*hang")
        pmix.write_text("Version: 6.1.0\n")
        self.cluster({"pmix_version": "fault"}, "--root", root, config=old_slurm, says="PMIx 6")
        self.cluster({"mpi_default": "warning"}, config=changed("= pmix", "= none"), says="MpiDefault is none")
        self.cluster({"job_requeue": "warning"}, config=changed("JobRequeue              = 1", "JobRequeue = 0"))
        self.cluster({"preemption": "warning"}, config=changed("= REQUEUE", "= CANCEL"))
        self.cluster({"pmix_fence": "fault"}, environment={"SLURM_PMIX_FENCE": "tree"}, says="SLURM_PMIX_FENCE is tree")
        self.cluster({"pmix_fence": "warning"}, config=changed("= ring", "= (null)"), says="mixed")
        self.cluster({"pmix_plugin": "fault"}, mpi="MPI plugin types are...\n\tnone\n\tpmi2\n", says="no pmix")

    def test_a_kill_wait_shorter_than_a_save_is_named(self):
        slow = self.recipe("slow.yaml", **{"checkpoint.max_write_mb_per_s": 0.02, "run.dir": "run"})
        self.cluster({"kill_wait": "warning"}, "--recipe", slow, says=r"KillWait is 30 s, a save .* 3\d\.\d s \(74\d\.\d KiB from each of 1 node at ")
        self.cluster({}, "--recipe", self.recipe("quick.yaml"))

    def test_what_a_partition_refuses_is_named(self):
        self.cluster({"partition": "fault"}, "--nodes", 9, says="partition gpu has MaxNodes=8, but 9")
        self.cluster({"partition": "fault"}, "--time", "25:00:00", says="MaxTime=1-00:00:00, but 1500 minutes")
        self.cluster({"partition": "warning"}, "--partition", "short", says="ends jobs after 120 s")
        self.cluster({"partition": "fault", "nodes": "fault"}, "--partition", "old", says="old is DOWN",
                     nodes="NodeName=n0 State=DOWN* Partitions=old Reason=gone [root@1]\n")
        checks = self.cluster({"partition": "fault"}, "--partition", "gpus", says="no partition 'gpus'")
        self.assertIn("'gpu'", checks["partition"]["advice"])
        self.cluster({"partition": "warning"}, partitions=PARTITIONS.replace("=YES", "=NO"), says="there is no default partition")

    def test_nodes_that_take_no_work_are_named(self):
        drained = NODES + "NodeName=n2 State=IDLE+DRAIN Partitions=gpu Reason=bad fan [root@2026-11-22T04:00:00]\n"
        checks = self.cluster({"nodes": "warning"}, nodes=drained, says=r"1 of 3 .*n2 is IDLE\+DRAIN \(bad fan")
        self.assertEqual(["n2"], checks["nodes"]["nodes"])
        self.cluster({"nodes": "fault"}, "--nodes", 3, nodes=drained, says="2 are left for 3")

    def test_a_missing_or_silent_slurm_is_named(self):
        self.slurm()
        (self.folder / "bin/scontrol").unlink()
        empty = {"PATH": str(self.folder / "bin")}
        result = self.command(product.ECHELON, "doctor", "cluster", "--folder", self.folder, code=3, **empty)
        self.assertRegex(result.out, r"(?m)^fault +slurm +there is no Slurm here")
        self.program("scontrol", "exec sleep 60\n")
        self.names({"slurm": "fault"}, "cluster", "--folder", self.folder, "--timeout", 0.3, says="did not answer")
        self.program("scontrol", "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2; exit 1\n")
        self.names({"slurm": "fault"}, "cluster", "--folder", self.folder, says="exits with 1: .*Unable to contact")

    def test_what_a_file_system_lacks_is_named(self):
        preload = os.environ["ECHELON_FAILING_CALLS"]
        for calls, expected in {"flock": {"folder_locks": "warning"}, "rename": {"folder_rename": "fault"},
                                "fsync": {"folder_fsync": "fault"}}.items():
            self.cluster(expected, environment={"LD_PRELOAD": preload, "ECHELON_FAIL": calls}, says=f"cannot be locked|{calls}")

    def test_a_folder_that_is_read_only_full_or_in_memory_is_named(self):
        self.cluster({"folder": "fault"}, "--folder", self.mount("locked", "-o", "ro"), says="Read-only file system")
        full = self.mount("full", "-o", "size=64k")
        (full / "filler").write_bytes(b"x" * 65536)
        self.cluster({"folder": "fault"}, "--folder", full, says="No space left")
        self.cluster({"folder": "warning"}, "--folder", self.mount("memory"), says="in this machine's memory")
        self.assertEqual([], list((self.folder / "memory").iterdir()), "a probe was left behind")

    # -- doctor recipe

    def on_tokens(self, **overrides):
        return self.recipe(**{**product.ON_TOKENS, **overrides})

    def test_a_recipe_in_order_gives_no_finding(self):
        self.prepare()
        checks = self.names({}, "recipe", self.on_tokens(), "--tasks-per-node", 2, "--root", self.root())
        self.assertIn("320 ids", checks["tokenizer"]["text"])
        self.assertFalse((self.folder / "run").exists(), "the doctor made a run folder")
        text = self.command(product.ECHELON, "doctor", "recipe", "recipe.yaml").out
        self.assertRegex(text, r"\Aok +recipe +'recipe.yaml' is valid on 1 rank\n(ok .*\n)+"
                               r"doctor recipe: 0 faults, 0 warnings, 0 unknown, \d+ ok in [\d.]+ s\n\Z")

    def test_each_fault_of_a_recipe_is_named(self):
        self.prepare()
        data = {"data": "fault", "tokenizer": "warning"}
        self.names({"recipe": "fault"}, "recipe", self.on_tokens(), "--nodes", 5, says="global_batch_size")
        self.names({"recipe": "fault"}, "recipe", self.on_tokens(), "optim.rl=1", says="optim.rl: no such key")
        self.names({"recipe": "fault"}, "recipe", "nothing.yaml", says="nothing.yaml")
        self.names({"data": "fault"}, "recipe", self.on_tokens(), "data.path=data/nothing.tok", says="nothing.tok")
        self.names({"validation_data": "fault"}, "recipe", self.on_tokens(), "data.validation.path=data/nothing.tok",
                   says="nothing.tok")
        self.names(data, "recipe", self.on_tokens(), "model.vocab_size=300", says="vocab_size is 300")
        self.names({"devices": "unknown", "memory": "unknown"}, "recipe", self.on_tokens(), "train.device=cuda")
        self.names({"memory": "fault"}, "recipe", self.on_tokens(), "--root", self.root(memory_kib=500), says="not fit")
        self.flip("data/train.tok", 200)
        self.names({"data": "fault"}, "recipe", self.on_tokens(), says="damaged")

    def test_more_ranks_than_gpus_or_less_memory_than_a_rank_needs_is_named(self):
        self.program("nvidia-smi", f"printf '{GPU}{GPU}'\n")
        recipe = self.recipe(**{"train.device": "cuda"})
        self.names({}, "recipe", recipe, "--tasks-per-node", 2)
        self.names({"devices": "fault"}, "recipe", recipe, "--tasks-per-node", 4, says="4 ranks of a node, but 2 GPUs")
        self.program("nvidia-smi", f"printf '{GPU.replace('81559', '1')}'\n")
        self.names({"memory": "fault"}, "recipe", recipe, "model.hidden_size=320", says="H100.* has 1.0 MiB: it does not fit")

    def test_a_run_folder_without_room_or_permission_is_named(self):
        room = self.mount("room", "-o", "size=1m")
        recipe = self.recipe(**{"checkpoint.keep_last": 3, "checkpoint.every_steps": 1})
        self.names({"checkpoint_room": "fault"}, "recipe", recipe, f"run.dir={room}/run", says="4 checkpoints of .* need")
        locked = self.mount("locked", "-o", "ro")
        self.names({"folder": "fault"}, "recipe", recipe, f"run.dir={locked}/run", says="Read-only")

    def test_what_a_recipe_keeps_is_what_plan_and_a_checkpoint_hold(self):
        kinds = {"adamw": {}, "sgd": {"optim.momentum": 0.9}, "adadelta": {}, "anyprecision_adamw": {}, "muon": {},
                 "ema": {"optim.ema_decay": 0.9},
                 "frozen": {"optim.ema_decay": 0.9, "optim.lr_factors": {"model.embed_tokens.*": 0, "model.layers.[02].*": 0}}}
        sizes = {"model.hidden_size": 320, "model.layers": 4, "model.intermediate_size": 640, "train.steps": 1,
                 "schedule.warmup_steps": 0, "checkpoint.async": False}
        for kind, more in kinds.items():
            recipe = self.recipe(**{**sizes, **more, "optim.kind": {"ema": "adamw", "frozen": "adamw"}.get(kind, kind), "run.dir": kind})
            checks = self.doctor("recipe", recipe, "--tasks-per-node", 2, code=0)
            plan = self.command(product.ECHELON, "plan", recipe, "--tasks-per-node", 2).out
            together = re.search(r"together ([\d.]+) MiB", plan)
            self.assertAlmostEqual(float(together[1]), checks["memory"]["values"]["needed_bytes"] / 2 / 2**20,
                                   delta=0.2, msg=plan)
        self.train(recipe)
        step, = self.checkpoints("frozen")
        written = sum(file.stat().st_size for file in step.glob("*.h5"))
        predicted = checks["checkpoint_room"]["values"]["checkpoint_bytes"]
        self.assertLess(abs(written - predicted), 0.02 * predicted)

    # -- doctor job

    def job(self, expected, *arguments, says="", ranks=2, **environment):
        # Two local ranks share a busy machine: their speeds are no subject here.
        folder = [] if "--folder" in arguments else ["--folder", self.folder]
        return self.names(expected, "job", "--ranks", ranks, "--slow", 0.02, *folder, *arguments, says=says,
                          **environment)

    def test_a_job_in_order_gives_no_finding(self):
        checks = self.job({})
        for name in ("pmix", "versions", "matmul", "mpi", "bandwidth", "shared_folder", "shared_write"):
            self.assertIn(name, checks)
        self.assertEqual([], [path for path in self.folder.iterdir() if path.name.startswith(".echelon")])
        self.job({}, ranks=1)
        self.job({"launch": "warning"}, ranks=1, SLURM_JOB_NUM_NODES="4", says="alone in a job of 4 nodes")

    def test_each_fault_of_a_node_is_named(self):
        root = self.root(instance="p5.48xlarge", efa=31)
        (root / "dev/shm").rmdir()
        (root / "tmp").rmdir()
        (root / "tmp").write_text("not a folder")
        self.program("nvidia-smi", "printf 'NVIDIA H100 80GB HBM3, 81559, 1980, 0x0000000000000040, 3\\n'\n")
        checks = self.job({"shm": "fault", "tmp": "fault", "efa": "fault", "efa_use": "warning", "gpus": "fault",
                           "gpu_clocks": "fault"}, "--root", root)
        self.assertRegex(checks["shm"]["text"], "cannot write in /dev/shm: .*No such file")
        self.assertRegex(checks["efa"]["text"], r"\(p5.48xlarge\) has 31 EFA devices, expected 32")
        self.assertRegex(checks["efa_use"]["text"], "FI_PROVIDER is ''.*TCP")
        self.assertRegex(checks["gpus"]["text"], "shows 1 GPU to 2 ranks")
        self.assertRegex(checks["gpu_clocks"]["text"], "hardware thermal slowdown.* 3 uncorrected memory errors")

    def test_a_small_shm_and_a_folder_that_cannot_be_written_are_named(self):
        root = self.root()
        self.mount("root/dev/shm", "-o", "size=64m")
        locked = self.mount("locked", "-o", "ro")
        checks = self.job({"shared_folder": "fault", "shm": "warning"}, "--root", root, "--folder", locked,
                          says="cannot write in .*Read-only")
        self.assertRegex(checks["shm"]["text"], "2 ranks need 128.0 MiB")

    def test_a_rank_of_another_version_is_named(self):
        version = re.match(r"echelon ([\d.]+)", self.command(product.ECHELON, "--version").out)[1]
        other = re.sub(r"\d", "9", version)
        program = self.folder / "bin/echelon"
        program.parent.mkdir()
        shutil.copy(product.ECHELON, program)
        (self.folder / "lib").symlink_to(pathlib.Path(product.ECHELON).parents[1] / "lib")
        program.write_bytes(program.read_bytes().replace(version.encode() + b"\0", other.encode() + b"\0"))
        program.chmod(0o755)
        # By a shell: the mpirun of Open MPI 5.0.7 crashes at two programs on fewer cores than ranks.
        rank = ('[ "$OMPI_COMM_WORLD_RANK" = 2 ] && set -- "$1" "$1"; exec "$2" doctor job --json --slow 0.02')
        result = self.command(*product.MPIRUN, "-n", 3, "sh", "-c", rank, "rank", program, product.ECHELON, code=3)
        report = json.loads(result.out[:result.out.rindex("}") + 1])
        versions, = [check for check in report["checks"] if check["name"] == "versions"]
        self.assertEqual("fault", versions["verdict"])
        self.assertRegex(versions["text"], rf"rank 2 on \S+ has echelon {re.escape(other)} .*others {re.escape(version)} ")

    def test_bad_options_are_2_with_one_line(self):
        for arguments in (["recipe"], ["recipe", "a.yaml", "--nodes", 0], ["cluster", "--time", "soon"],
                          ["cluster", "--nodes", "many"], ["job", "--slow", 2], ["job", "--ranks", 0],
                          ["job", "--root", "nowhere"], ["cluster", "--recipe", "nothing.yaml"]):
            result = self.command(product.ECHELON, "doctor", *arguments, code=2)
            self.assertEqual(1, result.err.count("\n"), str(result))


if __name__ == "__main__":
    product.in_own_mounts()
    product.main()
