"""What a release folder says about its contents: the licenses, and a bill of materials (SPDX 2.3)."""
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

# Libraries of which only headers are used: they are inside the programs.
HEADERS = ["libcli11-dev", "nlohmann-json3-dev"]


def made_at():
    """Seconds since 1970: the time of the commit, so that the same sources make the same files; where git does not tell it,
    that of this file."""
    if told := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(told)
    here = pathlib.Path(__file__)
    ask = ["git", "-c", "safe.directory=*", "-C", here.parent, "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return int(here.stat().st_mtime)


def package_of(file):
    """The distribution's package that a library came from. Where /lib is a link to /usr/lib, dpkg may know either name."""
    for name in (str(file), str(file).removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise ValueError(f"{file} belongs to no package, so its license is unknown: make packages on Debian or Ubuntu")


def version_of(package):
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=True).stdout


def spdx_package(name, version, license_name="NOASSERTION"):
    return {"SPDXID": f"SPDXRef-{name.replace('_', '-').replace('+', '-')}", "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": license_name,
            "licenseDeclared": license_name, "copyrightText": "NOASSERTION"}


def write(folder, version, copied, requires):
    licenses = folder / "share" / "doc" / "echelon" / "licenses"
    licenses.mkdir()
    inside = sorted({package_of(file) for file in copied.values()} | set(HEADERS))
    for name in inside:
        shutil.copyfile(f"/usr/share/doc/{name}/copyright", licenses / name)
    own = spdx_package("echelon", version, "Apache-2.0")
    parts = [spdx_package(name, version_of(name)) for name in inside]
    needs = [spdx_package(*requirement.split("==")) for requirement in requires]
    listed = json.dumps([own, *parts, *needs], sort_keys=True)
    created = datetime.datetime.fromtimestamp(made_at(), datetime.timezone.utc)
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own), *((own["SPDXID"], "CONTAINS", part) for part in parts),
                 *((own["SPDXID"], "DEPENDS_ON", need) for need in needs)]
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": folder.name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{folder.name}-{hashlib.sha256(listed.encode()).hexdigest()}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: tools/package/package.py"]},
        "packages": [own, *parts, *needs],
        "relationships": [{"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": object_["SPDXID"]}
                          for subject, kind, object_ in relations],
    }
    (folder / "share" / "doc" / "echelon" / "sbom.spdx.json").write_text(json.dumps(document, indent=1) + "\n")
