"""Mistakes seeded into the good files, one at a time: each must be found, and what is said must name it.

A mistake is (file, what stands there, what stands there instead, a part of the finding). That the files without a mistake
have no finding is shown by configurations_test.py and images_test.py.
"""
import unittest
from unittest import mock

import rules
import tools
from account import FOLDER, TOP, Account

# Seen by aws-parallelcluster's schema and validators. The file's queue is rendered; cluster.yaml with the smoke queue.
CLUSTER = [
    ("cluster.yaml", "SubnetId: ${public", "SubnetID: ${public", "SubnetID"),
    ("cluster.yaml", "Os: ubuntu2404", "Os: ubuntu2004", "Os"),
    ("cluster.yaml", "Scheduler: slurm", "Scheduler: awsbatch", "Scheduler"),
    ("cluster.yaml", "ScalingStrategy: all-or-nothing", "ScalingStrategy: all", "ScalingStrategy"),
    ("cluster.yaml", "RetentionInDays: 30", "RetentionInDays: 31", "RetentionInDays"),
    ("cluster.yaml", "- KillWait: 120", "- Prolog: /opt/prolog.sh", "Prolog"),
    ("cluster.yaml", "FileSystemId: ${file_system}", "{FileSystemId: '${file_system}', StorageCapacity: 1200}", "storage_capacity"),
    ("cluster.yaml", "VolumeType: gp3, Encrypted", "VolumeType: gp9, Encrypted", "VolumeType"),
    ("cluster.yaml", "${head_instance}  ", "m7i.3xlarge", "m7i.3xlarge"),
    ("cluster.yaml", "KeyName: ${key_name}", "KeyName: somebody-else", "somebody-else"),
    ("cluster.yaml", "FileSystemId: ${file_system}", "FileSystemId: fs-fedcba98765432100", "fs-fedcba98765432100 does not exist"),
    ("cluster.yaml", "policy/AmazonSSMManagedInstanceCore", "policy/AmazonSSMManagedInstanceCor", "AmazonSSMManagedInstanceCor"),
    ("queues/p5.yaml", "    PlacementGroup: {Enabled: true}", "    #", "placement group"),
    ("queues/p5.yaml", "MinCount: 0 ", "MinCount: 9 ", "min count"),
    ("queues/p5.yaml", "p5.48xlarge", "p5.47xlarge", "p5.47xlarge"),
    ("queues/p5.yaml", "    PlacementGroup", "    AssignPublicIp: true\n    PlacementGroup", "public"),
    ("queues/p4d.yaml", "- Name: p4d\n  Cap", "- Name: P4D\n  Cap", "P4D"),
    ("queues/p4d.yaml", "[${private_subnet}]", "[subnet-00000000000000000]", "subnet-00000000000000000"),
    ("queues/p4d.yaml", "GraceTime: 300", "GraceTime: 300, OverSubscribe: 'NO'", "OverSubscribe"),
    ("queues/p5en.yaml", "Efa: {Enabled: true}", "Efa: {Enable: true}", "Enable"),
    ("queues/p5_block.yaml", "MinCount: ${nodes}", "MinCount: 0", "Min count must be a value > 0"),
    ("queues/p5_block.yaml", "      CapacityReservationTarget: {CapacityReservationId: ${capacity_reservation}}\n", "", "Capacity Reservation id is required"),
    ("queues/p5_block.yaml", "${capacity_reservation}", "cr-00000000000000000", "cr-00000000000000000"),
    ("queues/p5_block.yaml", "  ComputeSettings", "    PlacementGroup: {Enabled: true}\n  ComputeSettings", "placement group"),
    ("queues/p5_block.yaml", "p5.48xlarge", "p5en.48xlarge", "p5en.48xlarge"),
    ("queues/smoke.yaml", "MaxCount: 4", "MaxCount: 4\n      Efa: {Enabled: true}", "EFA"),
    ("queues/smoke.yaml", "${setup_script}", "http://example.com/node_setup.sh", "is not a valid URL"),
]

# Accepted by AWS, refused by the project's own rules on the rendered configuration.
CLUSTER_RULES = [
    ("cluster.yaml", "MpiDefault: pmix", "MpiDefault: none", "MpiDefault"),
    ("cluster.yaml", "Scheduling: false", "Scheduling: true", "EnableMemoryBasedScheduling"),
    ("cluster.yaml", "KillWait: 120", "KillWait: 30", "KillWait"),
    ("cluster.yaml", "AllowedIps: ${allowed_ips}", "AllowedIps: 0.0.0.0/0", "AllowedIps"),
    ("queues/p5.yaml", "JobExclusiveAllocation: true", "JobExclusiveAllocation: false", "JobExclusiveAllocation"),
    ("queues/p5.yaml", "      Efa: {Enabled: true}\n", "", "EFA"),
]

# Seen by cfn-lint.
NETWORK = [
    ("CidrBlock: 10.0.0.0/16", "CidrBlock: 10.0.0.0/33", "10.0.0.0/33"),
    ("EnableDnsSupport", "EnableDnsSuport", "EnableDnsSuport"),
    ("SubnetIds: [!Ref PrivateSubnet]", "SubnetIds: [!Ref PrivateSubnt]", "PrivateSubnt"),
    ("NatAddress.AllocationId", "NatAddress.AllocationID", "AllocationID"),
    ("AWS::EC2::NatGateway", "AWS::EC2::NATGateway", "AWS::EC2::NATGateway"),
    ("Condition: WithNat\n    DependsOn", "Condition: WithNatt\n    DependsOn", "WithNatt"),
    ("      VpcEndpointType: Gateway\n", "      VpcEndpointType: Gate\n", "Gate"),
    ("    Default: 4800", "    Default: 4800\n    Minimum: 1", "Minimum"),
    ("Default: 250", "Default: 300", "E2015"),
    ("      GroupDescription: Nodes and file system of an Echelon cluster, all traffic among themselves\n", "", "GroupDescription"),
]

# Not seen by cfn-lint, refused by the project's own rules.
NETWORK_RULES = [
    ("    DeletionPolicy: Retain", "    DeletionPolicy: Delete", "DeletionPolicy"),
    ("    UpdateReplacePolicy: Retain\n", "", "UpdateReplacePolicy"),
    ("FileSystemType: LUSTRE", "FileSystemType: LUSTR", "LUSTR"),
    ("PERSISTENT_2", "PERSISTENT_9", "PERSISTENT_9"),
]

SCRIPTS = [
    ("cluster/parallelcluster/node_setup.sh", 'rm "$archive"', "rm $archive", "SC2086"),
    ("cluster/parallelcluster/node_setup.sh", "look_at_pmix\n[[", "look_at_pmix\n[ [", "SC1034"),
    ("cluster/slurm/train.sbatch", "set -euo pipefail\n", "set -euo pipefail\nif true; then\n", "syntax error"),
    ("docker/collect.sh", 'output=$3', 'outputs=$3', "SC2154"),
]

DIRECTIVES = [
    ("#SBATCH --requeue", "# SBATCH --requeue", "is a comment to Slurm"),
    ("#SBATCH --requeue", "#SBATCH --reque", "--reque is not an option"),
    ("#SBATCH --open-mode=append\n", "", "truncate the log"),
    ("--open-mode=append", "--open-mode=apend", "--open-mode"),
    ("--signal=USR2@60", "--signal=B:USR2@60", "batch shell only"),
    ("--time=24:00:00", "--time=24h", "--time"),
    ("--output=%x-%j.out", "--output=logs/%x-%j.out", "makes no folders"),
    ("--output=%x-%j.out", "--output=%x-%q.out", "'%q' stands for nothing"),
    ("#SBATCH --exclusive", "#SBATCH --exclusive\n#SBATCH --time=1:00:00", "a second time"),
    ("set -euo pipefail\n", "set -euo pipefail\n#SBATCH --nodes=2\n", "behind the first command"),
    ("#!/usr/bin/env bash\n", "", "names a shell"),
]

# Seen by hadolint in docker/cpu.Dockerfile.
DOCKERFILE = [
    ("FROM ${BASE} AS runtime", "FROM debian AS runtime", "DL3006"),
    ("FROM ${BASE} AS runtime", "FROM debian:latest AS runtime", "DL3007"),
    ("install -y --no-install-recommends slurm", "install --no-install-recommends slurm", "DL3014"),
    ("install -y --no-install-recommends slurm", "install -y slurm", "DL3015"),
    ("    && rm -rf /var/lib/apt/lists/*\nCOPY", "    && true\nCOPY", "DL3009"),
    ("WORKDIR /work", "WORKDIR work", "DL3000"),
    ("RUN ./make.sh setup", "RUN cd /src && ./make.sh setup", "DL3003"),
    ("# hadolint ignore=DL3002\n", "", "DL3002"),
    ('ENTRYPOINT ["echelon"]', "ENTRYPOINT echelon", "DL3025"),
    ("COPY --from=build /opt", "COPY --from=builder /opt", "DL3022"),
    ('-j "$(nproc)"', "-j $(nproc)", "SC2046"),
]

IMAGE_RULES = [
    ("@sha256:d5d3f9c23164ea16f31852f95bd5959aad1c5e854332fe00f7b3a20fcc9f635c", "", "not pinned"),
    ("USER 1000:1000\n", "", "runs as root"),
]


class Mistakes(unittest.TestCase):
    def seeded(self, path, old, new):
        """The text of a file with a mistake in it."""
        text = path.read_text()
        self.assertIn(old, text, f"{path.name}: the place of this mistake is gone")
        return text.replace(old, new, 1)

    def each(self, mistakes, findings_of):
        for *name, old, new, part in mistakes:
            with self.subTest(*name, mistake=new):
                findings = list(findings_of(*name, old, new))
                self.assertTrue(any(part.lower() in finding.lower() for finding in findings),
                                f"'{part}' is not in the findings: {findings}")

    def each_of(self, path, tool, mistakes):
        """Those in one file."""
        self.each(mistakes, lambda old, new: tool(self.seeded(path, old, new)))

    def rendered(self, name, old, new):
        """The configuration made of files one of which has a mistake."""
        queue = "smoke" if name == "cluster.yaml" else name.removeprefix("queues/").removesuffix(".yaml")
        path, text = FOLDER / name, self.seeded(FOLDER / name, old, new)
        plain = type(path).read_text
        with mock.patch.object(type(path), "read_text", lambda self: text if self == path else plain(self)):
            return self.account.rendered(queue)

    @classmethod
    def setUpClass(cls):
        cls.account = Account().__enter__()
        cls.addClassCleanup(cls.account.__exit__)

    def test_mistakes_in_cluster_configurations_are_found_by_aws_parallelcluster(self):
        self.each(CLUSTER, lambda *mistake: self.account.findings(self.rendered(*mistake)))

    def test_mistakes_that_aws_accepts_are_found_by_our_rules(self):
        self.each(CLUSTER_RULES, lambda *mistake: rules.cluster(self.rendered(*mistake)))

    def test_mistakes_in_the_network_are_found(self):
        self.each_of(FOLDER / "network.yaml", tools.cloudformation, NETWORK)
        self.each_of(FOLDER / "network.yaml", rules.network, NETWORK_RULES)

    def test_mistakes_in_scripts_are_found(self):
        self.each(SCRIPTS, lambda name, old, new: tools.script(self.seeded(TOP / name, old, new)))

    def test_mistakes_in_directives_are_found(self):
        self.each_of(TOP / "cluster/slurm/train.sbatch", tools.directives, DIRECTIVES)

    def test_mistakes_in_images_are_found(self):
        self.each_of(TOP / "docker/cpu.Dockerfile", tools.dockerfile, DOCKERFILE)
        self.each_of(TOP / "docker/cpu.Dockerfile", rules.image, IMAGE_RULES)


class NetworkMistakes(unittest.TestCase):
    def test_a_file_system_that_the_nodes_cannot_reach_is_found(self):
        network = (FOLDER / "network.yaml").read_text()
        rule = network[network.index("  IngressFromItself:"):network.index("  EgressToItself:")]
        with Account(network.replace(rule, "")) as account:
            findings = account.findings(account.rendered("p5"))
        self.assertTrue(any("Missing ports" in finding for finding in findings), findings)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # validators that were not awaited, because another one threw
