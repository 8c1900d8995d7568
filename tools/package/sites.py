"""What sites install a release folder with, from the templates in sites/: in the folder a module and a definition for
Apptainer; beside the tarball, because they have its checksum, a recipe for EasyBuild and a repository for Spack."""
import hashlib
import pathlib
import re

HERE = pathlib.Path(__file__).parent
DOCKERFILE = HERE.parents[1] / "docker" / "cpu.Dockerfile"


def fill(template, file, **facts):
    text = (HERE / "sites" / template).read_text()
    for name, value in facts.items():
        text = text.replace(f"@{name}@", value)
    if left := re.search(r"@[A-Z0-9]+@", text):
        raise ValueError(f"{template} needs {left[0]}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_inside(folder, version, requires):
    facts = {"VERSION": version, "TORCH": requires[0].split("==")[1]}
    fill("modulefile.in", folder / "share" / "modulefiles" / "echelon" / version, **facts)
    # Apptainer takes a tag or a digest.
    base = re.sub(r":[^:@/]+@", "@", re.search(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)[1])
    fill("apptainer.def.in", folder / "share" / "echelon" / "apptainer.def", VERSION=version, BASE=base,
         REQUIRES=" ".join(requires))


def write_beside(tarball, version, requires):
    facts = {"VERSION": version, "TARBALL": tarball.name, "SHA256": hashlib.sha256(tarball.read_bytes()).hexdigest()}
    fill("easyconfig.in", tarball.parent / f"Echelon-{version}.eb", TORCH=requires[0].split("==")[1], **facts)
    fill("spack_package.in", tarball.parent / "spack" / "packages" / "echelon" / "package.py", **facts)
    (tarball.parent / "spack" / "repo.yaml").write_text("repo:\n  namespace: echelon\n")
