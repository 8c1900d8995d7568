"""echelon submit asked for what cannot be: exit 2 or 3, one line, and nothing of a job left behind."""
import product

# Cases of the golden table: exit code and options.
REFUSED = {
    "with_no_nodes": (2, "--nodes", 0),
    "with_no_time_to_stop": (2, "--time", "5", "--stop-before", 300),
    "with_a_hostile_partition": (2, "--partition", "gpu; rm -rf ~"),
    "with_a_hostile_account": (2, "--account", "$(id)"),
    "with_a_hostile_qos": (2, "--qos", "`id`"),
    "with_a_hostile_constraint": (2, "--constraint", "a100 --wrap=id"),
    "with_hostile_nodes": (2, "--exclude", "n1\n#SBATCH --uid=0"),
    "with_a_hostile_run_folder": (2, "run.dir=run/a;id"),
    "with_a_hostile_image": (2, "--container-image", "a.sif\" ; id ; \""),
    "with_an_unknown_container_runtime": (2, "--container-image", "a.sif", "--container-runtime", "docker"),
    "with_hostile_mounts": (2, "--container-image", "a.sif", "--container-mounts", "data:/data"),
    "with_a_program_that_is_not_there": (3, "--program", "/no/such/program"),
    "following_an_array": (2, "--array", "0-3%1", "--wait"),
}


class Tests(product.Case):
    def submit(self, code, *options, **more):
        self.expect(code, product.ECHELON, "submit", self.recipe(), "train.global_batch_size=16", *options,
                    hide=r"/tmp/echelon-e2e-\w+", **more)
        self.assertFalse((self.folder / "run").exists())

    def test_submit_refuses(self):
        for case, (code, *options) in REFUSED.items():
            with self.subTest(case):
                self.submit(code, *options, case=case)

    def test_submit_on_a_machine_without_sbatch(self):
        self.submit(3, "--nodes", 2, PATH="/nowhere")

    def test_submit_without_a_recipe(self):
        self.expect(2, product.ECHELON, "submit")

    def test_submit_of_data_that_is_not_there(self):
        """Queued only if the user says that the nodes have it; a warning where that cannot be known."""
        missing = ["data.kind=tokens", "data.path=none.tok"]
        self.submit(2, *missing)
        self.submit(2, *missing, "--array", "0-1", "run.dir=run/{task}")
        self.submit(2, "data.kind=tokens", "data.path=recipe.yaml")
        for reason in (["--dependency", "afterok:1"], ["--container-image", "a.sif"], ["--submit-anyway"]):
            result = self.command(product.ECHELON, "submit", "recipe.yaml", "train.global_batch_size=16", *missing, *reason,
                                  code=3, PATH="/nowhere")
            self.assertEqual(reason[0] != "--submit-anyway", "as things are here, the job could not start" in result.err)
        printed = self.command(product.ECHELON, "submit", "recipe.yaml", "train.global_batch_size=16", *missing, "--print")
        self.assertIn("warning: echelon: as things are here, the job could not start: ", printed.err)

    def test_submit_of_data_for_another_vocabulary(self):
        self.prepare()
        self.submit(2, "data.kind=tokens", "data.path=data/train.tok")

    def test_submit_without_room_for_its_checkpoints(self):
        self.recipe()
        result = self.command(product.ECHELON, "submit", "recipe.yaml", "train.global_batch_size=16", "model.hidden_size=65536",
                              "model.heads=64", "model.intermediate_size=262144", "model.layers=100", code=2)
        self.assertRegex(result.err, r"the job could not start: 1 checkpoint of .* has .* free; make room, ")

    def test_submit_of_what_no_device_of_that_name_holds(self):
        """Slurm's names of GPUs often leave the size of their memory out."""
        self.recipe()
        for gpus in ["--gpus-per-node", "a100:1"], ["--gres", "gpu:A100:1,lustre"], ["--gres", "gpu:nvidia_a100-sxm4-80gb:1"]:
            result = self.command(product.ECHELON, "submit", "recipe.yaml", *gpus, "train.device=auto", "model.layers=4",
                                  "model.hidden_size=16384", "model.heads=128", "model.intermediate_size=65536", code=2)
            self.assertRegex(result.err, r"the recipe does not fit: a rank needs .* GiB of 79.2 GiB .NVIDIA A100 SXM4 80 GB")

    def test_submit_with_a_limit_of_memory_for_unknown_gpus(self):
        """CPU ranks need other memory, so a plan of them says nothing of GPUs."""
        self.recipe()
        for gpus in ["--gpus-per-node", 1], ["--gres", "gpu:mi300:1"]:
            result = self.command(product.ECHELON, "submit", "recipe.yaml", *gpus, "train.device=auto", "--memory", "80GiB",
                                  code=2)
            self.assertIn("which GPUs the nodes have is not known; add --gpu DEVICE (a100-40g, ", result.err)

    def test_validate_of_a_value_that_is_no_keys(self):
        self.expect(2, product.ECHELON, "validate", self.recipe(), "--value", "run.folder")


if __name__ == "__main__":
    product.main()
