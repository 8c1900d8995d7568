"""cmake --install: what it puts where, and that it runs without the build folder's bin/ and lib/."""
import pathlib
import re

import product

BUILD = pathlib.Path(product.ECHELON).parents[1]


class Tests(product.Case):
    def missing(self, library):
        """Names of the libraries that the loader does not find."""
        return set(re.findall(r"(\S+) => not found", self.command("ldd", library).out))

    def test_an_installed_program_finds_its_engine_and_recipes(self):
        prefix = self.folder / "prefix"
        self.command("cmake", "--install", BUILD, "--prefix", prefix)
        share = prefix / "share" / "echelon"
        version = self.command(prefix / "bin" / "echelon", "--version").out
        self.assertIn("libtorch", version)
        self.assertEqual(version, self.command(product.ECHELON, "--version").out)
        self.command(prefix / "bin" / "echelon-ckpt", "--version")
        self.command(prefix / "bin" / "echelon", "validate", share / "recipes" / "quickstart.yaml")
        self.assertNotIn(str(BUILD), self.command("readelf", "--dynamic", prefix / "bin" / "echelon").out)
        self.command("bash", "-n", share / "cluster" / "slurm" / "train.sbatch")
        self.command(share / "cluster" / "parallelcluster" / "render.py", "--help")
        self.assertTrue((prefix / "share" / "doc" / "echelon" / "first_run.md").is_file())

    def test_every_plugin_finds_what_it_found_in_the_build_folder(self):
        self.command("cmake", "--install", BUILD, "--prefix", "prefix")
        plugins = sorted(path.name for path in (BUILD / "lib").glob("libechelon_*.so"))
        self.assertIn("libechelon_engine.so", plugins)
        for name in plugins:
            self.assertEqual(self.missing(BUILD / "lib" / name), self.missing(self.folder / "prefix" / "lib" / name))


if __name__ == "__main__":
    product.main()
