"""Makes a folder with all that a machine with a driver, glibc 2.36 and a Python with torch lacks to try the GPU half.

    bundle.py --build build/release --output build/gpu-bundle

In it: the programs, the GPU tests, the libraries they need besides torch's, Open MPI for ranks of this machine, and
the scripts of this folder. `device.sh` in it is what runs there. Beside the folder an archive of it, OUTPUT.tar.xz.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAMS = ["bin/echelon", "bin/echelon-ckpt", "bin/gpu_kernels", "bin/gpu_reduce", "bin/gpu_ops", "bin/dist_comm_nccl",
            "lib/libechelon_engine.so", "lib/libechelon_cuda.so"]
OPTIONAL = ["lib/libkernel_times.so"]  # needs CUPTI, which a CUDA Toolkit may lack
SCRIPTS = ["device.sh", "device.py", "steps.py", "runs.py", "ceilings.py", "fsdp2_llama.py", "peft_llama.py", "llama_1_5b.yaml",
           "llama_8b_lora.yaml"]
LIMIT_MB = 60

# What every system has, and what the torch wheel and its dependencies bring.
OF_THE_SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s)\.so.*|linux-vdso.*)$")
OF_TORCH = re.compile(r"^lib(torch.*|c10.*|gomp|cuda.*|cudart|cupti|nccl|cublas.*|cudnn.*|cufft.*|cusparse.*|cusolver.*|"
                      r"curand.*|nv.*|cufile.*)\.so.*$")


def fail(why):
    sys.exit(f"gpu-bundle: {why}")


def output_of(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def libraries_of(file, torch_libraries):
    """name -> path of the libraries that `file` loads, and that a bare machine lacks."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(torch_libraries)}
    found = {}
    for line in output_of("ldd", file, env=environment).splitlines():
        name, _, place = line.strip().partition(" => ")
        name = pathlib.Path(name.split()[0]).name
        if OF_THE_SYSTEM.match(name) or OF_TORCH.match(name):
            continue
        if "not found" in place:
            raise FileNotFoundError(f"{file} needs {name}, which is not on this machine")
        found[name] = pathlib.Path(place.split()[0]).resolve()
    return found


def copy_stripped(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def copy_programs(build, output, torch_libraries):
    """Copies the programs; returns the libraries that they need."""
    needed = {}
    for name in PROGRAMS + [name for name in OPTIONAL if (build / name).exists()]:
        source = build / name
        if not source.exists():
            fail(f"{source} is missing: build with the CUDA Toolkit (./make.sh build cuda)")
        copy_stripped(source, output / name)
        needed.update(libraries_of(source, torch_libraries))
    return needed


def copy_plugins(folder, target, needed, torch_libraries):
    """Copies the plugins of `folder` that need nothing but `needed` and what is there anyway."""
    for plugin in sorted(folder.glob("*.so")):
        try:
            wanted = libraries_of(plugin, torch_libraries)
        except FileNotFoundError:
            continue
        if wanted.keys() <= needed.keys():
            copy_stripped(plugin, target / plugin.name)


def copy_mpi(output, needed, torch_libraries):
    """mpirun, and the plugins of Open MPI 4 and PMIx. Adds to `needed`."""
    mpirun = shutil.which("mpirun")
    version = output_of(mpirun, "--version").splitlines()[0] if mpirun else "no mpirun"
    if "(Open MPI) 4." not in version:
        print(f"gpu-bundle: without several ranks: needs Open MPI 4, here is {version}")
        return
    known = dict(re.findall(r"^\s(\S+) .*x86-64.* => (\S+)$", output_of("/sbin/ldconfig", "-p"), re.MULTILINE))
    # The programs load the two libraries on first use, so that ldd does not show them.
    needed.update({name: pathlib.Path(known[name]).resolve() for name in ("libmpi.so.40", "libpmix.so.2")})
    for file in (mpirun, needed["libmpi.so.40"], needed["libpmix.so.2"]):
        needed.update(libraries_of(file, torch_libraries))
    copy_stripped(pathlib.Path(mpirun).resolve(), output / "mpi/bin/mpirun")
    places = dict(line.strip().split(": ", 1) for line in output_of("ompi_info", "--path", "all").splitlines() if ": " in line)
    copy_plugins(pathlib.Path(places["Pkglibdir"]), output / "mpi/plugins", needed, torch_libraries)
    shutil.copytree(places["Pkgdatadir"], output / "mpi/data", ignore=shutil.ignore_patterns("*wrapper-data*", "doc"))
    copy_plugins(needed["libpmix.so.2"].parent / "pmix", output / "mpi/pmix", needed, torch_libraries)


def pack(output):
    archive = output.with_name(output.name + ".tar.xz")
    subprocess.run(["tar", "--sort=name", "--owner=0", "--group=0", "-C", output.parent, "-I", "xz -6 -T0", "-cf", archive,
                    output.name], check=True)
    size = archive.stat().st_size / 1e6
    whole = sum(file.stat().st_size for file in output.rglob("*") if file.is_file()) / 1e6
    print(f"{output}: {whole:.0f} MB; {archive}: {size:.1f} MB")
    if size > LIMIT_MB:
        fail(f"{archive} is larger than {LIMIT_MB} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with GPU code")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--no-archive", action="store_true", help="the folder only")
    args = parser.parse_args()
    torch_libraries = next(ROOT.glob(".venv/lib/python3*/site-packages/torch/lib"), None) or fail(".venv has no torch")
    args.output = args.output.resolve()
    shutil.rmtree(args.output, ignore_errors=True)
    needed = copy_programs(args.build, args.output, torch_libraries)
    copy_mpi(args.output, needed, torch_libraries)
    for name, path in needed.items():
        copy_stripped(path, args.output / "lib" / name)
    for name in SCRIPTS:
        shutil.copy2(HERE / name, args.output / name)
    changed = bool(output_of("git", "-C", ROOT, "status", "--porcelain").strip())
    facts = {"commit": output_of("git", "-C", ROOT, "rev-parse", "HEAD").strip() + ("+changes" if changed else ""),
             "compiler": output_of("g++", "--version").splitlines()[0], "nvcc": output_of("nvcc", "--version").splitlines()[-1]}
    (args.output / "bundle.json").write_text(json.dumps(facts, indent=2) + "\n")
    if not args.no_archive:
        pack(args.output)


if __name__ == "__main__":
    main()
