"""Makes the release folder of a build, and from it a tarball and a wheel (docs/installing.md):

  tools/package/package.py --build build/release --output build/package

The folder holds the programs and the libraries that plain systems lack. libtorch, Open MPI, PMIx and the C and C++ runtimes
are those of the machine that runs it. Exit codes: 0 done, 2 usage, 3 the build or this machine's libraries do not fit.
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import elf
import papers
import sites
import wheel

# What every system has that can run this: those of glibc and GCC, and what package managers themselves need.
SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|z|zstd))\.so\.\d+")
# What comes with torch and pyarrow.
OF_PYTHON = re.compile(r"lib(torch|torch_cpu|torch_cuda|c10|c10_cuda)\.so|lib(gomp|cudart|nccl|arrow|parquet)\.so\.\d+")
# What Debian's HDF5 reads S3 with, which Echelon never does. With it twenty more libraries would come along, of which a
# site's MPI uses other versions.
LEFT_OUT = {"libcurl.so.4", "libcrypto.so.3"}
# The newest versions a file may ask for: glibc 2.34 and GCC 11, the oldest of the systems this is for.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
# Functions that GCC 12 takes in a new version although the older one is called in the same way.
OLDER = [("GLIBCXX_3.4.30", "GLIBCXX_3.4.11", ["_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"])]


FORMS = ["tarball", "wheel"]


class Fault(Exception):
    pass


def cached(build, name):
    match = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    if not match:
        raise Fault(f"{build} is of another version of Echelon: configure it again (cmake --preset release)")
    return match[1]


def places(file):
    """{soname: file} of all libraries that the loader finds for a file."""
    listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    return {name: pathlib.Path(path) for name, path in re.findall(r"^\s(\S+) => (/\S+)", listed, re.MULTILINE)}


def copy_libraries(files, lib):
    """Copies what the files need, and what that needs. Returns where each copy came from."""
    copied, open_files = {}, [(file, places(file)) for file in files]
    while open_files:
        file, found = open_files.pop()
        for name in elf.Elf(file).needed():
            if name in copied or name in LEFT_OUT or SYSTEM.fullmatch(name) or OF_PYTHON.fullmatch(name):
                continue
            if name not in found:
                raise Fault(f"{file} needs {name}, which is not on this machine")
            copied[name] = found[name].resolve()
            shutil.copyfile(copied[name], lib / name)
            open_files.append((lib / name, found))
    return copied


def make_portable(file, search_path):
    binary = elf.Elf(file)
    if search_path:
        binary.set_search_path(search_path)
    elif binary.search_path():
        raise Fault(f"{file} looks for libraries in {binary.search_path()}")
    binary.leave_out(LEFT_OUT)
    for version, older, symbols in OLDER:
        binary.bind_to_older(version, older, symbols)
    binary.save()


def check_versions(file):
    for version in elf.Elf(file).versions():
        name, _, number = version.partition("_")
        if name in NEWEST and tuple(map(int, number.split("."))) > NEWEST[name]:
            raise Fault(f"{file} needs {version}, newer than {name}_{'.'.join(map(str, NEWEST[name]))}: "
                        "make packages on Debian 12, whose libraries are old enough")


def make_folder(build, folder):
    """Fills the folder; returns where the copied libraries came from."""
    installed = subprocess.run(["cmake", "--install", build.resolve(), "--prefix", folder.resolve()],
                               capture_output=True, text=True)
    if installed.returncode != 0:
        raise Fault(f"cmake --install failed: {installed.stderr.strip()}")
    own = [*(folder / "bin").iterdir(), *(folder / "lib").iterdir()]
    copied = copy_libraries(own, folder / "lib")
    for file in [*own, *(folder / "lib" / name for name in copied)]:
        subprocess.run(["strip", "--strip-debug", file], check=True)  # names stay, for backtraces
        make_portable(file, ("$ORIGIN/../lib" if file.parent.name == "bin" else "$ORIGIN") if file in own else None)
        check_versions(file)
    return copied


def write_shell_files(folder):
    """Manual pages and completion, where a prefix like /usr has them."""
    dated = {**os.environ, "SOURCE_DATE_EPOCH": str(papers.made_at())}
    for name in ("echelon", "echelon-ckpt"):
        program = folder / "bin" / name
        subprocess.run([program, "manual", folder / "share" / "man"], check=True, env=dated, stdout=subprocess.DEVNULL)
        for shell, place in (("bash", f"bash-completion/completions/{name}"), ("zsh", f"zsh/site-functions/_{name}"),
                             ("fish", f"fish/vendor_completions.d/{name}.fish")):
            script = folder / "share" / place
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_bytes(subprocess.run([program, "completion", shell], check=True, capture_output=True).stdout)


def write_sums(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def write_tarball(folder, output):
    """The same bytes for the same files, whoever makes it."""
    def plain(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = papers.made_at()
        return member

    with tarfile.open(output, "w:xz", preset=3) as tar:
        for path in [folder, *sorted(folder.rglob("*"))]:
            tar.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)


def package(build, output, forms):
    version = cached(build, "CMAKE_PROJECT_VERSION")
    requires = cached(build, "ECHELON_REQUIRES").split(";")
    folder = output / f"echelon-{version}-x86_64"
    os.umask(0o022)
    if folder.exists():
        shutil.rmtree(folder)  # of an earlier call; nothing else in the output is touched
    folder.mkdir(parents=True)
    copied = make_folder(build, folder)
    write_shell_files(folder)
    papers.write(folder, version, copied, requires)
    sites.write_inside(folder, version, requires)
    write_sums(folder)
    if "tarball" in forms:
        tarball = output / f"{folder.name}.tar.xz"
        write_tarball(folder, tarball)
        sites.write_beside(tarball, version, requires)
    if "wheel" in forms:
        wheel.write(folder, output, version, requires)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="where; earlier packages of the version are replaced")
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=FORMS, help="what to make of the folder")
    arguments = parser.parse_args()
    try:
        package(arguments.build, arguments.output, arguments.forms)
    except (Fault, ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"package.py: {error}", file=sys.stderr)
        return 3
    for path in sorted(arguments.output.iterdir()):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
