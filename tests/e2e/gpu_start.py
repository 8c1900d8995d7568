"""Where GPUs are, nobody trains on the CPU unasked: a driver beside GPU code that does not load ends the run."""
import glob
import os
import pathlib
import shutil

import product

DRIVER = os.environ["ECHELON_CUDA_DRIVER"]  # a stand-in: starts, shows devices, computes nothing
STUBS = [*glob.glob("/usr/local/cuda/lib64/stubs/libcuda.so"), *glob.glob("/usr/local/cuda/targets/*/lib/stubs/libcuda.so")]
SHORT = ["train.steps=4", "metrics.every_steps=1"]


class Tests(product.Case):
    def install(self, plugin=None):
        """The program in a folder of its own, with `plugin` as its GPU code."""
        here = pathlib.Path(product.ECHELON).parent
        for name in ("bin/echelon", "lib/libechelon_engine.so"):
            source = here.parent / name
            (self.folder / name).parent.mkdir()
            shutil.copy2(source, self.folder / name)
        if plugin is not None:
            (self.folder / "lib/libechelon_cuda.so").write_text(plugin)

    def start(self, *words, code, gpus=1, driver=DRIVER):
        outside = os.environ.get("LD_LIBRARY_PATH", "")
        return self.command(self.folder / "bin/echelon", *words, code=code, LD_LIBRARY_PATH=f"{driver}:{outside}",
                            ECHELON_DRIVER_SHOWS=str(gpus)).err

    def start_on(self, device, **how):
        return self.start("train", self.recipe(), *SHORT, f"train.device={device}", **how)

    def test_gpu_code_that_does_not_load_ends_the_run(self):
        self.install(plugin="no library")
        for device in ("auto", "cuda", "cuda_shared"):
            told = self.start_on(device, code=3)
            # Where PyTorch's libraries for CUDA are not installed, one of these is what is missing first.
            self.assertRegex(told, f"train.device is '{device}', but on node \\S+: the GPU code cannot be loaded: .*"
                                   r"lib\S+\.so\S*: .*; mend that, or use 'cpu' to compute on the CPU")
        self.assertNotIn("GPU", self.start_on("cpu", code=0))

    def test_sampling_names_its_option(self):
        self.install(plugin="no library")
        told = self.start("sample", "run", "--prompt", "a", "--device", "cuda", code=3)
        self.assertRegex(told, "--device is 'cuda', but on node \\S+: the GPU code cannot be loaded: ")

    def test_without_a_device_it_does_not_matter_what_loads(self):
        self.install(plugin="no library")
        self.assertNotIn("GPU", self.start_on("auto", code=0, gpus=0))
        self.assertIn("cannot be loaded", self.start_on("cuda", code=3, gpus=0))

    def test_a_build_without_gpu_code_says_so_where_gpus_are(self):
        self.install()
        self.assertIn("has GPUs, but this build has no GPU code", self.start_on("auto", code=0))
        self.assertIn("this build has no GPU code", self.start_on("cuda", code=3))

    def test_the_gpu_code_loads(self):
        """Against the toolkit's own stub of a driver, with all libraries of the product."""
        plugin = pathlib.Path(product.ECHELON).parents[1] / "lib/libechelon_cuda.so"
        if not plugin.exists() or not STUBS:
            self.skipTest("needs the CUDA Toolkit: GPU code is not built here")
        self.install()
        (self.folder / "lib/libechelon_cuda.so").symlink_to(plugin)
        (self.folder / "libcuda.so.1").symlink_to(STUBS[0])
        told = self.start_on("cuda", code=3, driver=self.folder)
        self.assertRegex(told, "train.device is 'cuda', but on node \\S+: the driver shows no GPU: CUDA driver is a stub library;")


if __name__ == "__main__":
    product.main()
