#!/usr/bin/env python3
"""Puts together a ParallelCluster configuration: cluster.yaml, one or more queues/*.yaml, the values of this account.

  aws cloudformation describe-stacks --stack-name NAME > stack.json
  render.py p5 --stack stack.json --set key_name=me --set allowed_ips=198.51.100.7/32 --set bucket=my-bucket \\
            --set nodes=8 --output p5.yaml

Every value is checked before anything is written; all faults are told at once. Exit codes: 0 done, 2 usage. Needs only
Python 3.9; docs/parallelcluster.md goes through it.
"""
import argparse
import difflib
import hashlib
import ipaddress
import json
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SETUP, EXPORTER = HERE / "node_setup.sh", HERE / "metrics_textfile.py"

# What network.yaml's outputs become here.
STACK_OUTPUTS = {"AvailabilityZone": "zone", "PublicSubnet": "public_subnet", "PrivateSubnet": "private_subnet",
                 "SecurityGroup": "security_group", "FileSystem": "file_system"}
HEX = "[0-9a-f]{8}(?:[0-9a-f]{9})?"


def matches(pattern):
    return lambda text: re.fullmatch(pattern, text) is not None


def is_admin_network(text):
    """A network in CIDR notation that is not the whole internet."""
    try:
        return "/" in text and ipaddress.IPv4Network(text).prefixlen >= 8
    except ValueError:
        return False


def is_node_count(text):
    return re.fullmatch(r"[1-9][0-9]{0,3}", text) is not None and int(text) <= 1000


# name: (is it right?, what is right, default). None: no default, the user has to give it.
PARAMETERS = {
    "zone": (matches(r"[a-z]{2}(-[a-z]+)+-[0-9][a-z]"), "an availability zone like us-east-2a", None),
    "public_subnet": (matches(f"subnet-{HEX}"), "a subnet id like subnet-0123456789abcdef0", None),
    "private_subnet": (matches(f"subnet-{HEX}"), "a subnet id like subnet-0123456789abcdef0", None),
    "security_group": (matches(f"sg-{HEX}"), "a security group id like sg-0123456789abcdef0", None),
    "file_system": (matches(f"fs-{HEX}"), "an FSx file system id like fs-0123456789abcdef0", None),
    "key_name": (matches(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,254}"), "the name of an EC2 key pair of type ed25519", None),
    "allowed_ips": (is_admin_network, "who may use ssh, a network like 198.51.100.7/32, not the whole internet", None),
    "bucket": (matches(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"), "an S3 bucket of yours for the set-up script", None),
    "nodes": (is_node_count, "the most nodes of a queue, 1 to 1000", None),
    "capacity_reservation": (matches(r"cr-[0-9a-f]{17}"), "the capacity block's id like cr-0123456789abcdef0", None),
    "head_instance": (matches(r"[a-z][a-z0-9-]*\.[a-z0-9-]+"), "an EC2 instance type like m7i.2xlarge", "m7i.2xlarge"),
    "monitoring": (matches(r"v[0-9]+(\.[0-9]+){1,2}|none"),
                   "a release of aws-parallelcluster-monitoring like v2.10, or none", "none"),
    "monitoring_sha256": (matches(r"[0-9a-f]{64}"), "SHA-256 of that release's .tar.gz, 64 hexadecimal digits", None),
    "monitoring_policy": (matches(r"arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]+"),
                          "the ARN of the IAM policy the monitoring needs on the head node", None),
}
FROM_STACK = set(STACK_OUTPUTS.values())


def fail(faults):
    for fault in faults:
        print(f"render.py: {fault}", file=sys.stderr)
    sys.exit(2)


def queue_names():
    return sorted(path.stem for path in (HERE / "queues").glob("*.yaml"))


def nearest(word, words):
    close = difflib.get_close_matches(word, words, 1)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(words))}"


def read_stack(path):
    """The values in the outputs of one stack, as `aws cloudformation describe-stacks` prints them; or exits."""
    try:
        if os.path.getsize(path) > 1 << 20:
            fail([f"{path} is larger than 1 MiB: expected the output of `aws cloudformation describe-stacks`"])
        stacks = json.loads(pathlib.Path(path).read_text())["Stacks"]
        outputs = {output["OutputKey"]: output["OutputValue"] for stack in stacks for output in stack["Outputs"]}
    except OSError as error:
        fail([f"cannot read {path}: {error.strerror}"])
    except (ValueError, KeyError, TypeError, RecursionError):
        fail([f"{path} is not the output of `aws cloudformation describe-stacks --stack-name NAME` for a finished stack"])
    if len(stacks) != 1:
        fail([f"{path} describes {len(stacks)} stacks: name one with --stack-name"])
    return {name: outputs[key] for key, name in STACK_OUTPUTS.items() if key in outputs}


def read_settings(settings):
    """--set name=value: the values, and what is wrong with their form."""
    values, faults = {}, []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            faults.append(f"--set {setting}: expected name=value")
        elif name not in PARAMETERS:
            faults.append(f"--set {name}: no such parameter; {nearest(name, list(PARAMETERS))}")
        elif name in values:
            faults.append(f"--set {name}: given twice")
        else:
            values[name] = value
    return values, faults


def check(values, needed):
    """What is missing among `needed` or malformed, a line each."""
    faults = []
    for name in sorted(values.keys() | needed):
        right, meaning, _ = PARAMETERS[name]
        if name not in values:
            source = "--stack (an output of network.yaml)" if name in FROM_STACK else f"--set {name}=..."
            faults.append(f"{name} is not set: expected {meaning}; set it with {source}")
        elif not isinstance(values[name], str) or not right(values[name]):
            faults.append(f"{name} is {values[name]!r}: expected {meaning}")
        elif name not in needed:
            faults.append(f"{name} is given, but none of the queues uses it")
    return faults


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def upload_name(path, bucket):
    """Where a file belongs in the bucket. Its content is part of the name: a cluster keeps what it was made with."""
    return f"s3://{bucket}/echelon/{path.stem}-{digest(path)[:12]}{path.suffix}"


def derived(values):
    """Values of placeholders that follow from parameters."""
    arguments = ["--exporter", upload_name(EXPORTER, values["bucket"]), "--exporter-sha256", digest(EXPORTER)]
    policy = ""
    if values["monitoring"] != "none":
        arguments += ["--monitoring", values["monitoring"], "--monitoring-sha256", values["monitoring_sha256"]]
        policy = f"      - Policy: {values['monitoring_policy']}"
    return {"region": values["zone"][:-1], "setup_script": upload_name(SETUP, values["bucket"]),
            "setup_args": json.dumps(arguments), "monitoring_policy": policy}


def indented(text):
    return "".join("    " + line for line in text.splitlines(True))


def render(queues, values):
    """The configuration as text, and faults; one of them is empty."""
    text = (HERE / "cluster.yaml").read_text()
    text += "".join(indented((HERE / "queues" / f"{queue}.yaml").read_text()) for queue in queues)
    body = "".join(line for line in text.splitlines(True) if not line.lstrip().startswith("#"))
    placeholders = set(re.findall(r"\$\{(\w+)\}", body))
    own = {"region", "setup_script", "setup_args", "monitoring_policy"}
    needed = (placeholders - own) | {"zone", "bucket", "monitoring"}
    values = {name: PARAMETERS[name][2] for name in needed if PARAMETERS[name][2] is not None} | values
    if values["monitoring"] != "none":
        needed |= {"monitoring_sha256", "monitoring_policy"}
    faults = check(values, needed)
    if faults:
        return "", faults
    values |= derived(values)
    return re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match[0]), text), []


def write(path, text, force):
    if os.path.exists(path) and not force:
        fail([f"{path} exists: name another file, or replace it with --force"])
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        pathlib.Path(temporary).write_text(text)
        os.replace(temporary, path)
    except OSError as error:
        fail([f"cannot write {path}: {error.strerror}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queues", nargs="+", metavar="QUEUE", help=f"one or more of: {' '.join(queue_names())}")
    parser.add_argument("--stack", metavar="FILE", help="output of `aws cloudformation describe-stacks --stack-name NAME`")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
                        help="; ".join(f"{name}: {meaning}" for name, (_, meaning, _) in PARAMETERS.items()))
    parser.add_argument("--output", metavar="FILE", help="default: standard output")
    parser.add_argument("--force", action="store_true", help="replace --output if it exists")
    options = parser.parse_args()
    unknown = [f"no queue '{queue}'; {nearest(queue, queue_names())}" for queue in options.queues
               if queue not in queue_names()]
    twice = {queue for queue in options.queues if options.queues.count(queue) > 1}
    settings, faults = read_settings(options.settings)
    faults = unknown + [f"queue '{queue}' is named twice" for queue in sorted(twice)] + faults
    if faults:
        fail(faults)
    stack = read_stack(options.stack) if options.stack else {}
    text, faults = render(options.queues, stack | settings)
    if faults:
        fail(faults)
    if options.output:
        write(options.output, text, options.force)
    else:
        sys.stdout.write(text)
    bucket = settings["bucket"]
    print("The cluster's nodes fetch these; upload them before you create it:", file=sys.stderr)
    for path in (SETUP, EXPORTER):
        print(f"  aws s3 cp {os.path.relpath(path)} {upload_name(path, bucket)}", file=sys.stderr)


if __name__ == "__main__":
    main()
