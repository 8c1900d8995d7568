"""What the linters do not know about these files, each rule with its reason. A finding is one line of text."""
import re

from cfnlint.decode import cfn_yaml
from pcluster.utils import yaml_load

CUDA_PINS = "docker/requirements_cuda.txt"


def network(text):
    """CloudFormation's schema lets FSx settings through that FSx refuses, and checkpoints that die with their stack."""
    for name, resource in cfn_yaml.loads(text)["Resources"].items():
        if resource["Type"] != "AWS::FSx::FileSystem":
            continue
        properties = resource["Properties"]
        lustre = properties.get("LustreConfiguration", {})
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            if resource.get(policy) != "Retain":
                yield f"{name}: {policy} is not Retain: checkpoints would go with the stack"
        if properties["FileSystemType"] != "LUSTRE":
            yield f"{name}: no file system type {properties['FileSystemType']}"
        if lustre.get("DeploymentType") != "PERSISTENT_2":
            yield f"{name}: deployment type {lustre.get('DeploymentType')}: only PERSISTENT_2 keeps data and has metadata modes"


def cluster(text):
    """Settings that AWS accepts and Echelon cannot live with."""
    settings = yaml_load(text)
    slurm = settings["Scheduling"]["SlurmSettings"]
    custom = {key: value for entry in slurm["CustomSlurmSettings"] for key, value in entry.items()}
    if custom.get("MpiDefault") != "pmix":
        yield "MpiDefault is not pmix: srun would start processes that know nothing of each other"
    if slurm.get("EnableMemoryBasedScheduling") is not False:
        yield "EnableMemoryBasedScheduling is not false: a requeued exclusive job hangs in BadConstraints"
    if not isinstance(custom.get("KillWait"), int) or custom["KillWait"] < 60:
        yield "KillWait is below 60: a save does not fit between SIGTERM and SIGKILL"
    for storage in settings["SharedStorage"]:
        if "FileSystemId" not in storage.get("FsxLustreSettings", {}):
            yield f"{storage['Name']}: made by the cluster, and deleted with it"
    if settings["HeadNode"]["Ssh"].get("AllowedIps", "0.0.0.0/0").endswith("/0"):
        yield "HeadNode/Ssh/AllowedIps: the whole internet"
    for queue in settings["Scheduling"]["SlurmQueues"]:
        if not queue.get("JobExclusiveAllocation"):
            yield f"queue {queue['Name']}: without JobExclusiveAllocation another job may take a rank's cores"
        for resource in queue["ComputeResources"]:
            gpus = re.match(r"p[4-6]", resource.get("InstanceType", ""))
            if gpus and not resource.get("Efa", {}).get("Enabled"):
                yield f"queue {queue['Name']}: {resource['InstanceType']} without EFA talks TCP"


def image(text):
    """A Dockerfile: every image comes by digest, and what a user starts is not root."""
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    stages, user = {}, ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("FROM "):
            base = re.sub(r"\$\{(\w+)\}", lambda match: arguments.get(match[1], match[0]), words[1])
            user = stages.get(base, "root")
            if base not in stages and not re.search(r"@sha256:[0-9a-f]{64}$", base):
                yield f"base image {base} is not pinned by its digest"
            name = words[3] if len(words) == 4 else "last"
        if line.startswith("USER "):
            user = "root" if words[1].partition(":")[0] in ("0", "root") else words[1]
        if line.startswith("FROM ") or line.startswith("USER "):
            stages[name] = user
    if stages.get("runtime") in (None, "root"):
        yield "the runtime stage runs as root"
