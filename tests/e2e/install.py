"""cmake --install and ./make.sh package: what they put where, and that it runs without the build folder."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys

import product

sys.path.append(str(product.TOP / "tools" / "package"))
import sites

BUILD = pathlib.Path(product.ECHELON).parents[1]
ORDINARY = 65534  # nobody


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
        linked = self.command("readelf", "--wide", "--dynamic", "--dyn-syms", prefix / "bin" / "echelon").out
        self.assertNotIn(str(BUILD), linked)
        self.assertNotRegex(linked, r"NEEDED.*lib(mpi|pmix)")
        self.assertRegex(linked, r"GLOBAL +DEFAULT +\d+ PMIx_Initialized", "Open MPI 5 must find the program's own")
        self.command("bash", "-n", share / "cluster" / "slurm" / "train.sbatch")
        self.command(share / "cluster" / "parallelcluster" / "render.py", "--help")
        self.assertTrue((prefix / "share" / "doc" / "echelon" / "first_run.md").is_file())

    def test_every_plugin_finds_what_it_found_in_the_build_folder(self):
        self.command("cmake", "--install", BUILD, "--prefix", "prefix")
        plugins = sorted(path.name for path in (BUILD / "lib").glob("libechelon_*.so"))
        self.assertIn("libechelon_engine.so", plugins)
        for name in plugins:
            self.assertEqual(self.missing(BUILD / "lib" / name), self.missing(self.folder / "prefix" / "lib" / name))

    def packaged(self, *forms):
        """Makes a release folder and forms of it; afterwards the build folder and the venvs are gone for this process. Returns the site-packages
        that were .venv's."""
        self.mount(self.folder, "-o", "size=2g")
        self.folder.chmod(0o755)
        made = self.command(sys.executable, product.TOP / "tools/package/package.py", "--build", BUILD, "--output", "made",
                            "--forms", *forms, code=None)
        if made.code == 3 and "make packages on Debian 12" in made.err:
            self.skipTest(made.err.strip())
        self.assertEqual(0, made.code, str(made))
        built_with = next(product.TOP.glob(".venv/lib/python3*/site-packages"))
        site = self.folder / "site"
        site.mkdir()
        for package in (name for name in ("torch", "nvidia", "pyarrow") if (built_with / name).exists()):
            (site / package).mkdir()
            subprocess.run(["mount", "-o", "bind,ro", built_with / package, site / package], check=True)
        self.mount(BUILD)
        self.mount(product.TOP / ".venv")
        self.assertFalse(pathlib.Path(product.ECHELON).exists())
        if self.may_be(ORDINARY):
            os.chown(self.folder, ORDINARY, ORDINARY)
        return site

    @staticmethod
    def may_be(user):
        return subprocess.run(["setpriv", "--reuid", str(user), "true"], capture_output=True).returncode == 0

    def plainly(self, *arguments, code=0, **more):
        """As an ordinary user without the environment of this process."""
        user = ["setpriv", "--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups"] if self.may_be(ORDINARY) else []
        variables = {"HOME": self.folder, "PATH": "/usr/bin:/bin", "TMPDIR": self.folder, **more}
        return self.command(*user, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *arguments, code=code)

    def is_portable(self, file):
        """For glibc 2.34 and GCC 11, with no place of this machine in it."""
        wanted = self.command("readelf", "--wide", "--version-info", "--dynamic", file).out
        for name, newest in (("GLIBC", (2, 34)), ("GLIBCXX", (3, 4, 29))):
            for version in re.findall(rf"Name: {name}_([\d.]+)", wanted):
                self.assertLessEqual(tuple(map(int, version.split("."))), newest, f"{file} needs {name}_{version}")
        self.assertEqual(set(), set(re.findall(r"r(?:un)?path: \[(.*)\]", wanted)) - {"$ORIGIN", "$ORIGIN/../lib"})

    def uses(self, echelon, **variables):
        """Trains, samples and examines with an installation that finds libtorch."""
        self.plainly(echelon, "train", "smoke", "run.dir=alone", **variables)
        self.plainly(echelon, "train", "smoke", "run.dir=pair", "--ranks", 2, **variables)
        found = self.plainly(echelon, "doctor", "install", **variables).out
        if (self.folder / "site" / "pyarrow").exists():
            self.assertRegex(found, r"(?m)^ok +parquet +Arrow loads from \S+/pyarrow/libarrow.so")
        self.assertRegex(found, r"(?m)^ok +libtorch +libtorch 2\S+ .* loads from \S+/torch/lib/libtorch_cpu.so$")
        self.assertRegex(found, r"(?m)^ok +pmix +PMIx \S+ loads from /\S+libpmix.so")
        self.assertRegex(found, r"(?m)^ok +mpi +Open MPI v\S+ loads from /\S+libmpi.so")

    def test_a_release_folder_runs_where_nothing_was_built(self):
        site = self.packaged("tarball")
        self.plainly("tar", "xf", next(self.folder.glob("made/*.tar.xz")))
        there = next(self.folder.glob("echelon-*-x86_64"))
        checksum = hashlib.sha256(next(self.folder.glob("made/*.tar.xz")).read_bytes()).hexdigest()
        self.assertIn(checksum, next(self.folder.glob("made/*.eb")).read_text())
        self.assertTrue(next(there.glob("share/modulefiles/echelon/*")).read_text().startswith("#%Module"))
        self.command("sh", "-c", f"cd {there.name} && sha256sum --check --quiet SHA256SUMS")
        for file in (*there.glob("bin/*"), *there.glob("lib/*")):
            self.is_portable(file)
        for page in ("man/man1/echelon-train.1", "bash-completion/completions/echelon-ckpt", "zsh/site-functions/_echelon",
                     "fish/vendor_completions.d/echelon.fish"):
            self.assertIn("echelon", (there / "share" / page).read_text())
        programs = there / "bin"
        self.uses(programs / "echelon", ECHELON_TORCH=site / "torch")
        self.assertEqual("", self.plainly(programs / "echelon-ckpt", "verify", "pair").err)
        (self.folder / "text.txt").write_text("alpha beta gamma delta. " * 2000)
        torch = {"ECHELON_TORCH": site / "torch"}
        self.plainly(programs / "echelon", "prepare", "text.txt", "-o", "data", "--train-tokenizer", 300, **torch)
        self.plainly(programs / "echelon", "train", self.recipe(**product.ON_TOKENS), **torch)
        said = self.plainly(programs / "echelon", "sample", "run", "--prompt", "alpha beta", "--tokens", 4, **torch).out
        self.assertTrue(said.startswith("alpha beta"), said)

    def test_sites_have_a_module_and_recipes(self):
        folder = self.folder / "echelon-1.2.3-x86_64"
        (folder / "bin").mkdir(parents=True)
        for name in ("echelon", "echelon-ckpt"):
            (folder / "bin" / name).symlink_to("/bin/true")
        sites.write_inside(folder, "1.2.3", ["torch==2.11.0", "pyarrow==25.0.1"])
        tarball = self.folder / f"{folder.name}.tar.xz"
        tarball.write_bytes(b"a tarball")
        sites.write_beside(tarball, "1.2.3", ["torch==2.11.0"])
        checksum = hashlib.sha256(b"a tarball").hexdigest()
        easyconfig = {"SYSTEM": {}}
        exec((self.folder / "Echelon-1.2.3.eb").read_text(), easyconfig)
        self.assertEqual(("1.2.3", [tarball.name], [checksum]), tuple(easyconfig[name] for name in ("version", "sources", "checksums")))
        spack = (self.folder / "spack/packages/echelon/package.py").read_text()
        compile(spack, "package.py", "exec")
        self.assertIn(f'version("1.2.3", sha256="{checksum}")', spack)
        image = (folder / "share/echelon/apptainer.def").read_text()
        self.assertIn("install --no-cache-dir torch==2.11.0 pyarrow==25.0.1", image)
        self.assertRegex(image, r"(?m)^From: debian@sha256:[0-9a-f]{64}$")
        init = next(filter(os.path.exists, ("/usr/share/modules/init/bash", "/usr/share/lmod/lmod/init/bash")), None)
        if init is None:
            self.skipTest("neither Environment Modules nor Lmod is installed here; the recipes passed")
        moved = folder.rename(self.folder / "moved")
        said = self.command("bash", "-c", f""". {init}; module use {moved}/share/modulefiles; module whatis echelon 2>&1
            try() {{
              module load echelon; command -v echelon echelon-ckpt; echo "$MANPATH"; module unload echelon
              command -v echelon || echo gone
            }}
            export MANPATH=/a:; try; unset MANPATH; try""", PATH="/usr/bin:/bin").out
        self.assertIn("Echelon 1.2.3: trains models", said)
        programs = [f"{moved}/bin/echelon", f"{moved}/bin/echelon-ckpt"]
        self.assertEqual([*programs, f"{moved}/share/man:/a:", "gone", *programs, "", "gone"], said.splitlines()[-8:])

    def test_a_wheel_finds_the_torch_beside_it(self):
        site = self.packaged("wheel")
        self.command(sys.executable, "-m", "venv", "--without-pip", "env")
        for package in site.iterdir():
            packages = next(self.folder.glob("env/lib/python3*/site-packages"))
            (packages / package.name).symlink_to(package)
        pip = product.TOP / ".venv-test" / "bin" / "python"
        self.command(pip, "-m", "pip", "--python", "env/bin/python", "install", "--no-deps", "--no-index",
                     next(self.folder.glob("made/*.whl")))
        self.uses(self.folder / "env" / "bin" / "echelon")
        self.plainly(self.folder / "env" / "bin" / "echelon-ckpt", "verify", "pair")

    def test_what_a_release_folder_lacks_is_said(self):
        site = self.packaged()
        echelon = next(self.folder.glob("made/echelon-*-x86_64/bin/echelon"))
        nowhere = self.plainly(echelon, "train", "smoke", code=3, VIRTUAL_ENV="/nowhere").err
        self.assertRegex(nowhere, r"PyTorch \S+, whose libraries train, is not beside this program, .*: install it \(python3 -m pip "
                                  r"install torch==\S+\) or set ECHELON_TORCH")
        old = self.folder / "old" / "torch"
        old.mkdir(parents=True)
        (old / "version.py").write_text("__version__ = '1.13.1+cu117'\n")
        other = self.plainly(echelon, "train", "smoke", code=3, ECHELON_TORCH=old).err
        self.assertRegex(other, r"'\S+/old/torch' is PyTorch 1\.13\.1, expected \S+: install it")
        (self.folder / "strange").mkdir()  # whose libraries the loader finds by itself
        (self.folder / "strange" / "lib").symlink_to(site / "torch" / "lib")
        (self.folder / "strange" / "version.py").write_text("__version__ = '2.10.0'\n")
        found = self.plainly(echelon, "train", "smoke", code=3, LD_LIBRARY_PATH=self.folder / "strange" / "lib").err
        self.assertRegex(found, r"'\S+/strange' is PyTorch 2\.10\.0, expected")
        torch = {"ECHELON_TORCH": site / "torch"}
        self.plainly(echelon, "train", "smoke", ECHELON_MPI="/nowhere", ECHELON_PMIX="/nowhere", **torch)  # one rank needs neither
        lone = self.plainly(echelon, "train", "smoke", "--ranks", 2, code=3, PATH="/nowhere", **torch).err
        self.assertIn("mpirun is not in PATH; install Open MPI", lone)
        without = self.plainly(echelon, "train", "smoke", "--ranks", 2, "run.dir=other", code=3, ECHELON_MPI="/nowhere/libmpi.so", **torch)
        self.assertRegex(without.err, r"Open MPI cannot be loaded: /nowhere/libmpi.so: .*install Open MPI 4 or 5 .* set ECHELON_MPI")
        found = self.plainly(echelon, "doctor", "install", ECHELON_MPI="/nowhere/libmpi.so", **torch).out
        self.assertRegex(found, r"(?m)^warning +mpi +Open MPI cannot be loaded")


if __name__ == "__main__":
    product.in_own_mounts()
    product.main()
